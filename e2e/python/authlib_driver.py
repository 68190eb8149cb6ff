"""Signs in by Authlib as Open WebUI uses it: endpoints by discovery, PKCE, claims of the ID token.

Prints "open URL" when a person must sign in, reads from standard input where the browser ended, and prints "ok JSON" with what the
application knows of the person.
"""
import json
import os
import sys

import requests
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session
from authlib.jose import jwt
from authlib.oidc.core import CodeIDToken

env = os.environ
metadata = requests.get(env["ISSUER"] + "/.well-known/openid-configuration", timeout=30).json()
session = OAuth2Session(
    env["CLIENT_ID"], env["CLIENT_SECRET"], scope=env["SCOPE"], redirect_uri=env["REDIRECT_URI"], code_challenge_method="S256",
)
verifier, nonce = generate_token(48), generate_token()
url, _ = session.create_authorization_url(metadata["authorization_endpoint"], code_verifier=verifier, nonce=nonce)
print("open", url, flush=True)
token = session.fetch_token(metadata["token_endpoint"], authorization_response=sys.stdin.readline().strip(), code_verifier=verifier)
keys = requests.get(metadata["jwks_uri"], timeout=30).json()
claims = jwt.decode(token["id_token"], keys, claims_cls=CodeIDToken, claims_options={"iss": {"value": metadata["issuer"]}},
                    claims_params={"nonce": nonce, "client_id": env["CLIENT_ID"]})
claims.validate()
person = dict(claims)
person["logout"] = requests.Request("GET", metadata["end_session_endpoint"], params={
    "id_token_hint": token["id_token"], "post_logout_redirect_uri": env["LOGOUT_URI"],
}).prepare().url
print("ok", json.dumps(person), flush=True)
