import { signedIn, type SignIn } from "./auth.js";
import { parameters } from "./query.js";
import { camel, type CallOptions, type Sent, type Transport } from "./transport.js";

/** A proof that the caller is who they are, where the session is older than five minutes. */
export interface Proof {
  password?: string;
  /** A code of the second factor. */
  code?: string;
}

/** A tenant of the caller, with their roles in it. */
export interface Tenant {
  readonly id: string;
  readonly name: string;
  readonly roles: readonly string[];
}

export interface Member {
  readonly id: string;
  readonly kind: "user" | "service";
  /** A user's address. */
  readonly email: string | null;
  readonly roles: readonly string[];
  readonly joinedAt: string;
}

/** An invitation that was sent. */
export interface Invitation {
  readonly id: string;
  readonly email: string;
  readonly roles: readonly string[];
  readonly expiresAt: string;
}

/** An invitation as its link shows it. */
export interface Invited {
  readonly email: string;
  readonly inviter: string | null;
  readonly tenant: string | null;
  readonly roles: readonly string[];
  readonly expiresAt: string;
}

export interface Members {
  readonly members: readonly Member[];
  readonly hasMore: boolean;
  /** Of the next page. */
  readonly cursor?: string;
  /** On the first page alone. */
  readonly invitations?: readonly Invitation[];
}

export interface Passkey {
  readonly id: string;
  readonly name: string;
  /** Whether it is synced to other devices of its owner. */
  readonly backedUp: boolean;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
}

/** What sessions and devices have. */
interface Place {
  readonly id: string;
  readonly address: string | null;
  readonly userAgent: string | null;
  /** Whether it is that of this request. */
  readonly current: boolean;
}

export interface Session extends Place {
  readonly createdAt: string;
  readonly lastSeenAt: string;
  readonly expiresAt: string;
}

export interface Device extends Place {
  readonly firstUsedAt: string;
  readonly lastUsedAt: string;
}

/** Sends requests below the path of the sign-in endpoints. */
class Part {
  constructor(protected readonly transport: Transport) {}

  protected async ask<T>(method: string, path: readonly string[], options: Sent = {}, body?: object): Promise<T> {
    const address = this.transport.auth(...path.map(encodeURIComponent));
    return camel(await this.transport.json(method, address, { ...options, body })) as T;
  }
}

/** The tenants of the caller. */
export class Tenants extends Part {
  async list(options?: CallOptions): Promise<Tenant[]> {
    return (await this.ask<{ tenants: Tenant[] }>("GET", ["tenants"], options)).tenants;
  }

  /** Makes a tenant. The caller becomes its `owner`. */
  create(name: string, options?: CallOptions): Promise<Tenant> {
    return this.ask("POST", ["tenants"], options, { name });
  }
}

/** The members of a tenant, for its owners and admins. */
export class MembersOf extends Part {
  /** A page of them. `cursor` is that of the page before. */
  list(tenant: string, { limit, cursor, ...options }: CallOptions & { limit?: number; cursor?: string } = {}): Promise<Members> {
    return this.ask("GET", ["tenants", tenant, "members"], { ...options, query: parameters({ limit, cursor }, false) });
  }

  /** Invites somebody by mail. `next` is where accepting leads to. */
  invite(
    tenant: string,
    invitation: { email: string; roles?: readonly string[]; next?: string } & Proof,
    options?: CallOptions,
  ): Promise<Invitation> {
    return this.ask("POST", ["tenants", tenant, "members"], options, invitation);
  }

  setRoles(tenant: string, member: string, roles: readonly string[], { password, code, ...options }: CallOptions & Proof = {}): Promise<void> {
    return this.ask("PATCH", ["tenants", tenant, "members", member], options, { roles, password, code });
  }

  /** Every member may remove themselves. */
  remove(tenant: string, member: string, options?: CallOptions): Promise<void> {
    return this.ask("DELETE", ["tenants", tenant, "members", member], options);
  }
}

/** Invitations, by the tokens of their links, and those that were sent. */
export class Invitations extends Part {
  /** What an invitation is for. Nothing is accepted. */
  describe(token: string, options?: CallOptions): Promise<Invited> {
    return this.ask("GET", ["invitations", token], options);
  }

  /** Accepts one, as the account of the invited address. Returns the tenant, if it is for one. */
  async accept(token: string, options?: CallOptions): Promise<string | null> {
    const { tenant } = await this.ask<{ tenant?: string }>("POST", ["invitations", "accept"], options, { invite: token });
    return tenant ?? null;
  }

  /** The link of one that was sent no longer works. */
  withdraw(tenant: string, id: string, options?: CallOptions): Promise<void> {
    return this.ask("DELETE", ["tenants", tenant, "invitations", id], options);
  }
}

/** The passkeys of the caller. Adding one and signing in with one need a browser. */
export class Passkeys extends Part {
  async list(options?: CallOptions): Promise<Passkey[]> {
    return (await this.ask<{ passkeys: Passkey[] }>("GET", ["passkeys"], options)).passkeys;
  }

  /** Adds one of this device. Needs the password, or a session younger than five minutes of an account without one. */
  async add({ name, password, code, ...options }: CallOptions & Proof & { name?: string } = {}): Promise<Passkey> {
    const asked = await this.#webauthn<PublicKeyCredentialCreationOptionsJSON>("register/options", options, { password, code });
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(asked);
    const made = (await navigator.credentials.create({ publicKey, ...options } as object)) as PublicKeyCredential;
    return this.ask("POST", ["passkeys", "register"], options, { ...made.toJSON(), name });
  }

  /** Signs in with a passkey, or proves the second factor of a sign-in. */
  async signIn(options: CallOptions = {}): Promise<SignIn> {
    const asked = await this.#webauthn<PublicKeyCredentialRequestOptionsJSON>("login/options", options, {});
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(asked);
    const got = (await navigator.credentials.get({ publicKey, ...options } as object)) as PublicKeyCredential;
    return signedIn(await this.#webauthn("login", options, got.toJSON()));
  }

  /** Browsers make and read these; their keys stay as they are. */
  #webauthn<T>(path: string, options: CallOptions, body: object): Promise<T> {
    return this.transport.json("POST", this.transport.auth("passkeys", path), { ...options, body });
  }

  rename(id: string, name: string, options?: CallOptions): Promise<void> {
    return this.ask("PATCH", ["passkeys", id], options, { name });
  }

  remove(id: string, { password, code, ...options }: CallOptions & Proof = {}): Promise<void> {
    return this.ask("DELETE", ["passkeys", id], options, { password, code });
  }
}

/** The sessions of the caller. */
export class Sessions extends Part {
  async list(options?: CallOptions): Promise<Session[]> {
    return (await this.ask<{ sessions: Session[] }>("GET", ["sessions"], options)).sessions;
  }

  end(id: string, options?: CallOptions): Promise<void> {
    return this.ask("DELETE", ["sessions", id], options);
  }

  /** Ends all but this one. */
  endOthers(options?: CallOptions): Promise<void> {
    return this.ask("DELETE", ["sessions"], options);
  }
}

/** The devices from which the caller has signed in. */
export class Devices extends Part {
  async list(options?: CallOptions): Promise<Device[]> {
    return (await this.ask<{ devices: Device[] }>("GET", ["devices"], options)).devices;
  }

  /** Its sessions stay. */
  forget(id: string, options?: CallOptions): Promise<void> {
    return this.ask("DELETE", ["devices", id], options);
  }

  /** Forgets all but this one. */
  forgetOthers(options?: CallOptions): Promise<void> {
    return this.ask("DELETE", ["devices"], options);
  }
}
