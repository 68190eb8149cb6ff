// Runs the conformance flows of @mcpjam/sdk against a server behind Gatehouse: a revision of MCP with a way to be known, and then
// either requests that must be refused or the tools of the server. One of those requests sends the code again, which ends what was
// given for it, so one flow cannot have both. Prints "open URL" when a person must decide, "secret TOKEN" for each token, and "ok
// FLOW" or "fail FLOW: what" for each flow.
import { OAuthConformanceSuite } from '@mcpjam/sdk';

const env = process.env;
// In the first revision no resource names its scopes.
const flow = (protocolVersion, registrationStrategy, then) => ({
	label: `${protocolVersion} ${registrationStrategy} ${then}`, protocolVersion, registrationStrategy, scopes: protocolVersion === '2025-03-26' ? 'tools.read' : undefined,
	oauthConformanceChecks: then === 'attacks', verification: then === 'tools' ? { listTools: true, callTool: { name: 'read', params: {} } } : undefined,
});

// The page that refuses an address does not say why, and a code that is sent again is refused before its address is looked at.
const unseen = ['oauth_invalid_authorize_redirect', 'oauth_invalid_redirect'];

const suite = new OAuthConformanceSuite({
	name: 'Gatehouse', serverUrl: env.RESOURCE,
	defaults: {
		auth: { mode: 'interactive', openUrl: async url => console.log('open ' + url) },
		client: {
			preregistered: { clientId: env.CLIENT_ID }, clientIdMetadataUrl: env.DOCUMENT,
			dynamicRegistration: { client_name: 'MCPJam', token_endpoint_auth_method: 'none' },
		},
		redirectUrl: env.REDIRECT_URI, stepTimeout: 60000,
	},
	flows: env.FLOWS.split(',').map(text => flow(...text.split(' '))),
});

const result = await suite.run();
for (const r of result.results) {
	for (const name of ['accessToken', 'refreshToken']) {
		if (r.credentials?.[name]) console.log('secret ' + r.credentials[name]);
	}
	const bad = r.steps.filter(s => s.status === 'failed' || (s.status === 'skipped' && s.step.startsWith('oauth_') && !unseen.includes(s.step)))
		.map(s => `${s.step} ${s.status} ${s.error?.message ?? ''}`);
	const checks = r.steps.filter(s => s.step.startsWith('oauth_') && s.status === 'passed').length;
	if (r.label.endsWith(' attacks') && checks < 3) bad.push(`only ${checks} checks`);
	if (r.label.endsWith(' tools') && !(r.verification?.listTools?.toolCount === 2 && r.verification?.callTool?.passed)) bad.push(`tools ${JSON.stringify(r.verification)}`);
	if (!r.passed) bad.push(r.summary);
	console.log(bad.length ? `fail ${r.label}: ${bad.join('; ')}` : `ok ${r.label}`);
}
process.exit(0);
