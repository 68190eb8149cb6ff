// Signs in by Better Auth with the options in the file OPTIONS.
import { browser, env, finish, open } from './driver.mjs';

const { auth } = await import(env.OPTIONS);
const go = browser(env.APP, auth.handler);
const begun = await (await go('/api/auth/sign-in/social', JSON.stringify({ provider: 'gatehouse', callbackURL: '/' }))).json();
if (!begun.url) throw new Error('no address: ' + JSON.stringify(begun));
const back = await open(begun.url);
const done = await go(back.pathname + back.search);
if (done.status !== 302 || (done.headers.get('location') ?? '').includes('error')) {
	throw new Error('refused: ' + done.status + ' ' + done.headers.get('location') + ' ' + (await done.text()));
}
const { user } = await (await go('/api/auth/get-session')).json();
const ended = await (await go('/api/auth/sign-out', JSON.stringify({ callbackURL: env.APP + '/', disableRedirect: true }))).json();
finish({ ...user, logout: ended.url });
