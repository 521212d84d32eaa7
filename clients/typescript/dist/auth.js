import { GatewrightError } from "./failure.js";
import { either } from "./transport.js";
export class Auth {
    #transport;
    constructor(transport) {
        this.#transport = transport;
    }
    async register(credentials, options) {
        return (await this.#post("register", credentials, options)).user;
    }
    async signIn(credentials, options) {
        return signedIn(await this.#post("login", credentials, options));
    }
    async challenge(code, options) {
        await this.#post("2fa/challenge", { code }, options);
    }
    async signOut(options) {
        await this.#post("logout", {}, options);
    }
    async me(options) {
        try {
            const me = await this.#transport.json("GET", this.#transport.auth("me"), { ...options });
            return {
                user: me["user"],
                emailVerified: Boolean(either(me, "emailVerified")),
                twoFactorEnabled: Boolean(either(me, "twoFactorEnabled")),
            };
        }
        catch (error) {
            if (error instanceof GatewrightError && error.failure.kind === "unauthenticated")
                return null;
            throw error;
        }
    }
    async sendMagicLink(email, options) {
        const { next, ...call } = options ?? {};
        await this.#post("magic-link/send", next === undefined ? { email } : { email, next }, call);
    }
    async redeemMagicLink(token, options) {
        return signedIn(await this.#post("magic-link/verify", { token }, options));
    }
    oauthUrl(provider, next) {
        const query = next === undefined ? undefined : new URLSearchParams({ next });
        return this.#transport.url(this.#transport.auth("oauth", encodeURIComponent(provider)), query);
    }
    async changePassword(current, password, options) {
        await this.#post("change-password", { current_password: current, password }, options);
    }
    async forgotPassword(email, options) {
        await this.#post("forgot-password", { email }, options);
    }
    async resetPassword(token, password, options) {
        await this.#post("reset-password", { token, password }, options);
    }
    async sendVerification(options) {
        await this.#post("send-verification", {}, options);
    }
    async verifyEmail(token, options) {
        await this.#post("verify-email", { token }, options);
    }
    async enrollTwoFactor(options) {
        return this.#post("2fa/enroll", {}, options);
    }
    async confirmTwoFactor(code, options) {
        return either(await this.#post("2fa/verify", { code }, options), "backupCodes");
    }
    async disableTwoFactor(code, options) {
        await this.#post("2fa/disable", { code }, options);
    }
    #post(path, body, options = {}) {
        return this.#transport.json("POST", this.#transport.auth(path), { ...options, body });
    }
}
function signedIn(answer) {
    if (answer["two_factor_required"])
        return { status: "two_factor_required" };
    return { status: "signed_in", user: answer["user"] };
}
