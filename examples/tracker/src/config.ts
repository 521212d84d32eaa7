/** The URL of the server. */
export const api = "http://127.0.0.1:8080";
