"""Drives requests-oauthlib through the code flow and client credentials.

Prints "open URL" when a person must sign in and reads from standard input where the browser ended; prints "ok STEP" for each step that
held and "fail STEP: reason" for the others.
"""
import os
import sys

from oauthlib.oauth2 import BackendApplicationClient
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

env = os.environ
env["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # plain http on this machine
env["OAUTHLIB_RELAX_TOKEN_SCOPE"] = "1"
issuer = env["ISSUER"]
basic = HTTPBasicAuth(env["CLIENT_ID"], env["CLIENT_SECRET"])
failed = False


def step(name, run):
    global failed
    try:
        run()
        print("ok", name, flush=True)
    except Exception as e:  # whatever it is, the test reads it
        failed = True
        print(f"fail {name}: {type(e).__name__} {e}", flush=True)


def remember(token):
    for name in ("access_token", "refresh_token", "id_token"):
        if token.get(name):
            print("secret", token[name], flush=True)


shop = OAuth2Session(env["CLIENT_ID"], redirect_uri=env["REDIRECT_URI"], scope=env["SCOPE"].split())


def code():
    url, _ = shop.authorization_url(issuer + "/oauth/authorize")
    print("open", url, flush=True)
    remember(shop.fetch_token(issuer + "/oauth/token", authorization_response=sys.stdin.readline().strip(), auth=basic))


def userinfo():
    res = shop.get(issuer + "/oauth/userinfo")
    res.raise_for_status()
    assert res.json()["preferred_username"] == env["PERSON"], res.json()


def refresh():
    old = shop.token["refresh_token"]
    remember(shop.refresh_token(issuer + "/oauth/token", auth=basic))
    assert shop.token["refresh_token"] != old, "the refresh token was not rotated"


def client_credentials():
    own = OAuth2Session(client=BackendApplicationClient(client_id=env["CLIENT_ID"]))
    remember(own.fetch_token(issuer + "/oauth/token", auth=basic))


step("code", code)
step("userinfo", userinfo)
step("refresh", refresh)
step("client_credentials", client_credentials)
sys.exit(1 if failed else 0)
