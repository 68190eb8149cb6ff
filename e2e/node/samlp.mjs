// Serves npm's samlp as several SAML identity providers, each below a path of its own: /gcm encrypts by AES-256-GCM, /cbc
// by AES-256-CBC in an unsigned response, as AD FS does, /plain does not encrypt, /sha1 signs by SHA-1. /ID/sso answers a
// request, /ID/start?to=ORIGIN sends an answer to the service provider of that origin without having been asked. Everybody is
// alice. Prints "ready" once it listens on PORT. KEY and CERT are files.
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import zlib from 'node:zlib';
import samlp from 'samlp';

const { PORT, KEY, CERT } = process.env;
const key = fs.readFileSync(KEY), cert = fs.readFileSync(CERT);
const alice = { id: 'alice', displayName: 'Alice Example', name: { givenName: 'Alice', familyName: 'Example' }, emails: [{ value: 'alice@example.org' }] };

// the certificate for encryption in the metadata of the service provider
async function encryption(sp, algorithm) {
	const metadata = await (await fetch(sp)).text();
	const der = metadata.match(/use="encryption".*?X509Certificate>([^<]+)</s)[1].replace(/\s/g, '');
	const c = new crypto.X509Certificate(Buffer.from(der, 'base64'));
	return { encryptionCert: c.toString(), encryptionPublicKey: c.publicKey.export({ type: 'spki', format: 'pem' }), encryptionAlgorithm: algorithm, disallowEncryptionWithInsecureAlgorithm: false };
}

const algorithms = { gcm: 'http://www.w3.org/2009/xmlenc11#aes256-gcm', cbc: 'http://www.w3.org/2001/04/xmlenc#aes256-cbc' };

// the entity id of the service provider is the address of its metadata
async function options(id, sp) {
	const acs = sp.replace(/metadata$/, 'acs');
	return {
		issuer: `urn:samlp:${id}`, key, cert, getPostURL: (audience, dom, req, next) => next(null, acs), getUserFromRequest: () => alice,
		recipient: acs, destination: acs, lifetimeInSeconds: 300, signAssertion: true, signResponse: id === 'gcm', sessionIndex: '_' + crypto.randomUUID(),
		signatureAlgorithm: id === 'sha1' ? 'rsa-sha1' : 'rsa-sha256', digestAlgorithm: id === 'sha1' ? 'sha1' : 'sha256',
		...(algorithms[id] ? await encryption(sp, algorithms[id]) : {}),
	};
}

const asker = (request) => zlib.inflateRawSync(Buffer.from(request, 'base64')).toString().match(/Issuer[^>]*>([^<]+)</)[1];

// what samlp expects of Express
function express(req, res, query) {
	req.query = query;
	req.protocol = 'http';
	res.set = (name, value) => res.setHeader(name, value);
	res.send = (body) => res.end(body);
}

http.createServer(async (req, res) => {
	const url = new URL(req.url, 'http://localhost');
	const [, id, op] = url.pathname.split('/');
	const failed = (e) => { res.statusCode = 500; res.end(String(e?.stack ?? e)); };
	try {
		switch (op) {
		case 'metadata':
			express(req, res, {});
			req.originalUrl = req.url;
			return samlp.metadata({
				issuer: `urn:samlp:${id}`, cert, redirectEndpointPath: `/${id}/sso`, postEndpointPath: `/${id}/sso`, logoutEndpointPaths: { redirect: `/${id}/slo` },
			})(req, res, failed);
		case 'sso':
			express(req, res, Object.fromEntries(url.searchParams));
			return samlp.auth(await options(id, asker(req.query.SAMLRequest)))(req, res, failed);
		case 'start': {
			express(req, res, {});
			const sp = `${url.searchParams.get('to')}/saml/${id}/metadata`;
			return samlp.auth({ ...await options(id, sp), audience: sp })(req, res, failed);
		}
		}
		res.statusCode = 404;
		res.end();
	} catch (e) {
		failed(e);
	}
}).listen(Number(PORT), 'localhost', () => console.log('ready'));
