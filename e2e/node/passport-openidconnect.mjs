// Drives passport-openidconnect, as an Express application would, with a confidential client that sends its secret in the body and uses
// no PKCE. Prints "open URL" when a person must sign in and reads from standard input where the browser ended; prints "ok STEP" for each step
// that held and "fail STEP: reason" for the others.
import readline from 'node:readline';
import OpenIDConnectStrategy from 'passport-openidconnect';

const env = process.env;
const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const doc = await (await fetch(env.ISSUER + '/.well-known/openid-configuration')).json();
const strategy = new OpenIDConnectStrategy({
	issuer: doc.issuer, authorizationURL: doc.authorization_endpoint, tokenURL: doc.token_endpoint, userInfoURL: doc.userinfo_endpoint,
	clientID: env.CLIENT_ID, clientSecret: env.CLIENT_SECRET, callbackURL: env.REDIRECT_URI, scope: ['profile', 'email'], nonce: true, skipUserProfile: false,
}, (issuer, profile, context, idToken, accessToken, refreshToken, verified) => {
	for (const token of [idToken, accessToken, refreshToken]) console.log('secret ' + token);
	verified(null, { issuer, profile });
});

// passport gives each request a strategy of its own and these four ways out of it
function authenticate(req) {
	return new Promise((resolve, reject) => {
		const s = Object.create(strategy);
		s.redirect = (url) => resolve({ url });
		s.success = (user) => resolve({ user });
		s.fail = (challenge) => reject(new Error('refused: ' + (challenge?.message ?? challenge)));
		s.error = reject;
		s.authenticate(req, {});
	});
}

let failed = false;
async function step(name, f) {
	try {
		await f();
		console.log('ok ' + name);
	} catch (e) {
		failed = true;
		console.log(`fail ${name}: ${e.message}`);
	}
}

const session = {};
let callback;
await step('redirect', async () => {
	console.log('open ' + (await authenticate({ session, query: {} })).url);
	callback = new URL((await input.next()).value);
});
await step('callback', async () => {
	const { user } = await authenticate({ session, query: Object.fromEntries(callback.searchParams) });
	if (user.issuer !== env.ISSUER || user.profile.username !== env.PERSON) throw new Error('signed in as ' + JSON.stringify(user.profile));
});
await step('replay', async () => {
	const refused = await authenticate({ session, query: Object.fromEntries(callback.searchParams) }).then(() => false, () => true);
	if (!refused) throw new Error('the same answer was taken twice');
});
process.exit(failed ? 1 : 0);
