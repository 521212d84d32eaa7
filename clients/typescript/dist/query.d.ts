/** Builds a filter expression whose values are quoted: ``filter`title ~ ${text} && status = ${status}` ``. */
export declare function filter(parts: TemplateStringsArray, ...values: FilterValue[]): string;
/** What a filter compares with. */
export type FilterValue = string | number | boolean | null | Date | readonly FilterValue[];
/** The parameters of a list, as a query string has them. */
export declare function parameters(asked: {
    [name: string]: unknown;
}, etag: boolean): URLSearchParams;
