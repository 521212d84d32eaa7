import { type CallOptions, type Transport } from "./transport.js";
/** An account. */
export interface Account {
    readonly id: string;
    readonly email: string;
    readonly roles: readonly string[];
}
/** The caller. */
export interface Me {
    readonly user: Account;
    readonly emailVerified: boolean;
    readonly twoFactorEnabled: boolean;
}
/** What came of a sign-in. */
export type SignIn = {
    readonly status: "signed_in";
    readonly user: Account;
}
/** {@link Auth.challenge} completes it. */
 | {
    readonly status: "two_factor_required";
};
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
/** Signing in and out. The session is a cookie, which browsers keep themselves and which this client keeps elsewhere. */
export declare class Auth {
    #private;
    constructor(transport: Transport);
    /** Creates an account. Signs nobody in. */
    register(credentials: Credentials, options?: CallOptions): Promise<Account>;
    signIn(credentials: Credentials, options?: CallOptions): Promise<SignIn>;
    /** Proves the second factor, by a code of the app or a backup code. */
    challenge(code: string, options?: CallOptions): Promise<void>;
    /** Ends the session. */
    signOut(options?: CallOptions): Promise<void>;
    /** Who the caller is; null if nobody. */
    me(options?: CallOptions): Promise<Me | null>;
    /** Mails a link that signs in. `next` is where its page leads to. */
    sendMagicLink(email: string, options?: CallOptions & {
        next?: string;
    }): Promise<void>;
    /** Signs in by the `token` of a mailed link. */
    redeemMagicLink(token: string, options?: CallOptions): Promise<SignIn>;
    /** Where to send the browser for a sign-in by a provider; `next` is where it comes back to. */
    oauthUrl(provider: string, next?: string): string;
    changePassword(current: string, password: string, options?: CallOptions): Promise<void>;
    /** Mails a link to set a new password, if there is such an account. */
    forgotPassword(email: string, options?: CallOptions): Promise<void>;
    /** Sets a new password by the `token` of a mailed link. */
    resetPassword(token: string, password: string, options?: CallOptions): Promise<void>;
    /** Mails a link that proves the address. */
    sendVerification(options?: CallOptions): Promise<void>;
    /** Proves the address by the `token` of a mailed link. */
    verifyEmail(token: string, options?: CallOptions): Promise<void>;
    /** Begins to set up a second factor. */
    enrollTwoFactor(options?: CallOptions): Promise<Enrollment>;
    /** Turns the second factor on, by a code of the app. Returns the backup codes, for the only time. */
    confirmTwoFactor(code: string, options?: CallOptions): Promise<string[]>;
    /** Turns the second factor off. */
    disableTwoFactor(code: string, options?: CallOptions): Promise<void>;
}
