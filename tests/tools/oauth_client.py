"""Uses the authorization server with Authlib: `python oauth_client.py BASE EMAIL PASSWORD PUBLIC ID SECRET`.

PUBLIC is a client for users, ID and SECRET are those of a service. Prints one JSON object.
"""

import json
import sys

import requests
from authlib.integrations.requests_client import OAuth2Session

from consent import allow

BASE, EMAIL, PASSWORD, PUBLIC, ID, SECRET = sys.argv[1:]
CALLBACK = "http://127.0.0.1:9/callback"
VERIFIER = "a-verifier-of-more-than-forty-three-characters-in-all"

metadata = requests.get(f"{BASE}/.well-known/oauth-authorization-server").json()
session = OAuth2Session(
    PUBLIC,
    redirect_uri=CALLBACK,
    scope="notes:read notes:write",
    code_challenge_method="S256",
    token_endpoint_auth_method="none",
)
url, state = session.create_authorization_url(metadata["authorization_endpoint"], code_verifier=VERIFIER)
answer = allow(url, EMAIL, PASSWORD)
report = {"state": answer["state"] == state, "issuer": answer["iss"] == metadata["issuer"]}
token = session.fetch_token(metadata["token_endpoint"], code=answer["code"], code_verifier=VERIFIER)
report["token"] = {key: token[key] for key in ("token_type", "expires_in", "scope")}
report["made"] = session.post(f"{BASE}/notes", json={"title": "by a program"}).status_code
report["elsewhere"] = session.post(f"{BASE}/mcp", json={}).status_code
fresh = session.refresh_token(metadata["token_endpoint"])
report["refreshed"] = session.get(f"{BASE}/notes").json()["total"]
session.revoke_token(metadata["revocation_endpoint"], token=fresh["refresh_token"], token_type_hint="refresh_token")
report["revoked"] = session.get(f"{BASE}/notes").status_code

for method in ("client_secret_basic", "client_secret_post"):
    service = OAuth2Session(ID, SECRET, scope="notes:read", token_endpoint_auth_method=method)
    token = service.fetch_token(metadata["token_endpoint"], grant_type="client_credentials")
    inspected = service.introspect_token(metadata["introspection_endpoint"], token=token["access_token"]).json()
    report[method] = [service.get(f"{BASE}/notes").status_code, inspected["active"], inspected["scope"]]
    report[f"{method}_write"] = service.post(f"{BASE}/notes", json={"title": "x"}).status_code
print(json.dumps(report))
