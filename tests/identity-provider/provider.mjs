// An OpenID Connect provider on a free port of the loopback, with one client and one key.
//
//     node provider.mjs ALG DOMAIN REDIRECT_URI...
//
// ALG is RS256 or ES256, and users have addresses at DOMAIN. It prints one line, `issuer http://127.0.0.1:PORT`, and
// ends when its standard input is closed. On its pages, every name and password is accepted. The name is the subject
// and the first part of the address.
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const [alg, domain, ...redirectUris] = process.argv.slice(2);
const pair =
  alg === 'ES256'
    ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
    : generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...pair.privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: `key-${alg}` };

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'gatewright',
      client_secret: 'canary-client-secret-of-the-identity-provider',
      redirect_uris: redirectUris,
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      id_token_signed_response_alg: alg,
    },
  ],
  jwks: { keys: [key] },
  cookies: { keys: ['a key for tests alone'] },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'picture'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      email: `${id.split('+')[0]}@${domain}`,
      // `bob+unverified` has an unverified address.
      email_verified: !id.endsWith('+unverified'),
      name: `The ${id}`,
      picture: `https://people.example/${encodeURIComponent(id)}.png`,
    }),
  }),
  issueRefreshToken: async () => true,
  pkce: { required: () => true },
});

server.on('request', provider.callback());
process.stdin.on('end', () => process.exit(0)).resume();
console.log(`issuer ${issuer}`);
