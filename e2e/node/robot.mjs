// A robot that signs its requests with web-bot-auth of Cloudflare, and serves the directory of its key. Prints "ok STEP" for each step that
// held and "fail STEP: reason" for the others.
import fs from 'node:fs';
import https from 'node:https';
import { signatureHeaders, jwkToKeyID, helpers, HTTP_MESSAGE_SIGNATURES_DIRECTORY, MediaType } from 'web-bot-auth';
import { signerFromJWK } from 'web-bot-auth/crypto';

const env = process.env;
const { privateKey, publicKey } = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify']);
const jwk = await crypto.subtle.exportKey('jwk', privateKey);
const { kty, crv, x } = await crypto.subtle.exportKey('jwk', publicKey);
const kid = await jwkToKeyID({ kty, crv, x }, helpers.WEBCRYPTO_SHA256, helpers.BASE64URL_DECODE);
const directory = https.createServer({ cert: fs.readFileSync(env.CERT), key: fs.readFileSync(env.KEY) }, (req, res) => {
	if (req.url !== HTTP_MESSAGE_SIGNATURES_DIRECTORY) return res.writeHead(404).end();
	res.writeHead(200, { 'content-type': MediaType.HTTP_MESSAGE_SIGNATURES_DIRECTORY, 'cache-control': 'max-age=60' });
	res.end(JSON.stringify({ keys: [{ kty, crv, x, kid }] }));
});
await new Promise(done => directory.listen(Number(env.PORT), '127.0.0.1', done));

const signer = await signerFromJWK({ ...jwk, kid });
async function signed(url) {
	const request = new Request(url, { headers: { 'Signature-Agent': `"https://localhost:${env.PORT}"` } });
	const now = Date.now();
	const made = await signatureHeaders(request, signer, { created: new Date(now), expires: new Date(now + 60_000) });
	return { 'Signature-Agent': request.headers.get('Signature-Agent'), ...made };
}

let failed = false;
async function step(name, url, headers, want) {
	const res = await fetch(url, { headers, redirect: 'manual' });
	await res.arrayBuffer();
	if (res.status !== want) failed = true;
	console.log(res.status === want ? `ok ${name}` : `fail ${name}: ${res.status}, want ${want}`);
}
const docs = env.SITE + '/docs/a', headers = await signed(docs);
await step('signed', docs, headers, 200);
await step('replayed', docs, headers, 401);
await step('tampered', docs, { ...await signed(docs), 'Signature-Agent': '"https://bot.example.com"' }, 401);
await step('elsewhere', docs, await signed('http://other.example.com/docs/a'), 401);
await step('another page', env.SITE + '/else', await signed(env.SITE + '/else'), 401);
await step('unsigned', docs, { 'User-Agent': 'Googlebot/2.1' }, 401);
await step('again', docs, await signed(docs), 200);
directory.close();
process.exit(failed ? 1 : 0);
