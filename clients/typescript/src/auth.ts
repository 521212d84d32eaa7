import { isKind } from "./failure.js";
import { parameters } from "./query.js";
import { either, type CallOptions, type Spelled, type Transport } from "./transport.js";

/** An account. */
export interface Account {
  readonly id: string;
  readonly email: string;
  readonly roles: readonly string[];
  /** The fields of profiles, where the server declares any. */
  readonly profile?: Readonly<Record<string, unknown>>;
}

/** The caller. */
export interface Me {
  readonly user: Account;
  readonly emailVerified: boolean;
  readonly twoFactorEnabled: boolean;
}

/** What came of a sign-in. */
export type SignIn =
  | { readonly status: "signed_in"; readonly user: Account }
  /** {@link Auth.challenge} completes it. */
  | { readonly status: "two_factor_required" };

/** A second factor to be set up: {@link Auth.confirmTwoFactor} turns it on. */
export interface Enrollment {
  readonly secret: string;
  /** An `otpauth://` address. */
  readonly url: string;
  /** Its picture, as a data URI. */
  readonly qr: string;
}

export interface Credentials {
  email: string;
  password: string;
}

/** A new account. */
export interface Registration extends Credentials {
  /** The fields of its profile. Those that the server requires must be here. */
  profile?: Readonly<Record<string, unknown>>;
  /** The token of an invitation. */
  invite?: string;
}

/** Signing in and out. The session is a cookie, which browsers keep themselves and which this client keeps elsewhere. */
export class Auth {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates an account. Signs nobody in. */
  async register(registration: Registration, options?: CallOptions): Promise<Account> {
    return (await this.#post<{ user: Account }>("register", registration, options)).user;
  }

  async signIn(credentials: Credentials, options?: CallOptions): Promise<SignIn> {
    return signedIn(await this.#post("login", credentials, options));
  }

  /** Proves the second factor, by a code of the app or a backup code. */
  challenge(code: string, options?: CallOptions): Promise<void> {
    return this.#post("2fa/challenge", { code }, options);
  }

  /** Ends the session. */
  signOut(options?: CallOptions): Promise<void> {
    return this.#post("logout", {}, options);
  }

  /** Who the caller is; null if nobody. */
  async me(options?: CallOptions): Promise<Me | null> {
    try {
      const me = await this.#transport.json<Spelled>("GET", this.#transport.auth("me"), { ...options });
      return {
        user: me["user"] as Account,
        emailVerified: Boolean(either(me, "emailVerified")),
        twoFactorEnabled: Boolean(either(me, "twoFactorEnabled")),
      };
    } catch (error) {
      if (isKind(error, "unauthenticated")) return null;
      throw error;
    }
  }

  /** Changes these fields of the caller's profile; null clears one. */
  async changeProfile(profile: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<Account> {
    const path = this.#transport.auth("me");
    return (await this.#transport.json<{ user: Account }>("PATCH", path, { ...options, body: { profile } })).user;
  }

  /** Mails a link that signs in. `next` is where its page leads to. */
  sendMagicLink(email: string, { next, ...options }: CallOptions & { next?: string } = {}): Promise<void> {
    return this.#post("magic-link/send", { email, next }, options);
  }

  /** Signs in by the `token` of a mailed link. */
  async redeemMagicLink(token: string, options?: CallOptions): Promise<SignIn> {
    return signedIn(await this.#post("magic-link/verify", { token }, options));
  }

  /** Signs in as a guest: an account without an address, which registering or another sign-in turns into a full one. */
  async signInAsGuest(options?: CallOptions): Promise<SignIn> {
    return signedIn(await this.#post("anonymous", {}, options));
  }

  /** Mails six digits that sign in. Returns the request that goes with them. */
  async sendEmailCode(email: string, options?: CallOptions): Promise<string> {
    return (await this.#post<{ request: string }>("email-code/send", { email }, options)).request;
  }

  /** Signs in by the `code` of a mail and the request of `sendEmailCode`. */
  async verifyEmailCode(email: string, code: string, request: string, options?: CallOptions): Promise<SignIn> {
    return signedIn(await this.#post("email-code/verify", { email, code, request }, options));
  }

  /** Where to send the browser for a sign-in by a provider; `next` is where it comes back to. */
  oauthUrl(provider: string, next?: string): string {
    return this.#transport.url(this.#transport.auth("oauth", encodeURIComponent(provider)), parameters({ next }, false));
  }

  changePassword(current: string, password: string, options?: CallOptions): Promise<void> {
    return this.#post("change-password", { current_password: current, password }, options);
  }

  /** Mails a link to set a new password, if there is such an account. `next` is where its page leads to. */
  forgotPassword(email: string, { next, ...options }: CallOptions & { next?: string } = {}): Promise<void> {
    return this.#post("forgot-password", { email, next }, options);
  }

  /**
   * Sets a new password by the `token` of a mailed link. API tokens, connected programs, passkeys, linked providers and sent
   * invitations end too, unless `endOthers` is false.
   */
  resetPassword(token: string, password: string, { endOthers, ...options }: CallOptions & { endOthers?: boolean } = {}): Promise<void> {
    return this.#post("reset-password", { token, password, endOthers }, options);
  }

  /** Mails a link that proves the address. */
  sendVerification(options?: CallOptions): Promise<void> {
    return this.#post("send-verification", {}, options);
  }

  /** Proves the address by the `token` of a mailed link. */
  verifyEmail(token: string, options?: CallOptions): Promise<void> {
    return this.#post("verify-email", { token }, options);
  }

  /** Begins to set up a second factor. Needs a sign-in within the last five minutes, or the password in `options`. */
  async enrollTwoFactor({ password, ...options }: CallOptions & { password?: string } = {}): Promise<Enrollment> {
    return this.#post("2fa/enroll", { password }, options);
  }

  /** Turns the second factor on, by a code of the app. Returns the backup codes, for the only time. */
  async confirmTwoFactor(code: string, options?: CallOptions): Promise<string[]> {
    return either(await this.#post<Spelled>("2fa/verify", { code }, options), "backupCodes") as string[];
  }

  /** Turns the second factor off. */
  disableTwoFactor(code: string, options?: CallOptions): Promise<void> {
    return this.#post("2fa/disable", { code }, options);
  }

  #post<T>(path: string, body: object, options: CallOptions = {}): Promise<T> {
    return this.#transport.json("POST", this.#transport.auth(path), { ...options, body });
  }
}

export function signedIn(answer: Spelled): SignIn {
  // The one key that is always spelled so.
  if (answer["two_factor_required"]) return { status: "two_factor_required" };
  return { status: "signed_in", user: answer["user"] as Account };
}
