"""Signs a user in with Authlib: `python openid_client.py BASE EMAIL PASSWORD ID SECRET`. Prints one JSON object."""

import json
import sys

import requests
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken, UserInfo
from joserfc import jwt
from joserfc.jwk import KeySet

from consent import allow

BASE, EMAIL, PASSWORD, ID, SECRET = sys.argv[1:]
VERIFIER = "a-verifier-of-more-than-forty-three-characters-in-all"
NONCE = "n-0S6_WzA2Mj"

metadata = requests.get(f"{BASE}/.well-known/openid-configuration").json()
session = OAuth2Session(
    ID,
    SECRET,
    redirect_uri="http://127.0.0.1:9/callback",
    scope="openid profile email",
    code_challenge_method="S256",
    token_endpoint_auth_method="client_secret_basic",
)
url, state = session.create_authorization_url(metadata["authorization_endpoint"], code_verifier=VERIFIER, nonce=NONCE)
answer = allow(url, EMAIL, PASSWORD)
report = {"state": answer["state"] == state, "issuer": answer["iss"] == metadata["issuer"]}
token = session.fetch_token(metadata["token_endpoint"], code=answer["code"], code_verifier=VERIFIER)
keys = KeySet.import_key_set(requests.get(metadata["jwks_uri"]).json())
decoded = jwt.decode(token["id_token"], keys, algorithms=metadata["id_token_signing_alg_values_supported"])
parameters = {"nonce": NONCE, "client_id": ID, "access_token": token["access_token"]}
claims = CodeIDToken(decoded.claims, decoded.header, {"iss": {"values": [metadata["issuer"]]}}, parameters)
claims.validate()
report["alg"] = decoded.header["alg"]
info = UserInfo(session.get(metadata["userinfo_endpoint"]).json())
report["sub"] = info.sub == claims["sub"]
report["email"] = [claims["email"], info.email]
token = session.refresh_token(metadata["token_endpoint"])
report["refreshed"] = jwt.decode(token["id_token"], keys, algorithms=["ES256", "RS256"]).claims["sub"] == claims["sub"]
print(json.dumps(report))
