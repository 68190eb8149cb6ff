// Signs in by openid-client 5 as Audiobookshelf uses it: endpoints by discovery, PKCE, groups from userinfo, sign-out.
import { generators, Issuer } from 'openid-client';
import { env, finish, open } from './driver.mjs';

const issuer = await Issuer.discover(env.ISSUER);
const client = new issuer.Client({ client_id: env.CLIENT_ID, client_secret: env.CLIENT_SECRET, id_token_signed_response_alg: 'RS256' });
const state = generators.random();
const verifier = generators.random();
const back = await open(client.authorizationUrl({
	redirect_uri: env.REDIRECT_URI, scope: env.SCOPE, state, response_type: 'code',
	code_challenge: generators.codeChallenge(verifier), code_challenge_method: 'S256',
}));
const tokens = await client.callback(env.REDIRECT_URI, client.callbackParams(back.href), { state, response_type: 'code', code_verifier: verifier });
const logout = client.endSessionUrl({ id_token_hint: tokens.id_token, post_logout_redirect_uri: env.LOGOUT_URI });
finish({ ...(await client.userinfo(tokens)), logout });
