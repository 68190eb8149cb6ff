package attacks

// peerCase is a vulnerability that another product had, and what is tried here against the same mechanism.
type peerCase struct {
	Number    int
	ID, Peer  string
	Mechanism string
	Attack    string
}

// peers lists the vulnerabilities of comparable products whose mechanism the catalogue does not have, or has in a
// narrower form. The numbers have gaps and never change, since tests refer to them.
var peers = []peerCase{
	{1, "GHSA-5wcc-hf24-rf5h", "authentik", "forward-auth reads a URL header that the proxy does not set; own prefix always open", "auth_request profile + client header `X-Original-URI: /oauth/x` → 401, upstream 0 hits"},
	{2, "CVE-2026-25748", "authentik", "malformed session cookie: 200 without identity headers", "Cookie of 20 broken forms (bad base64, `%`, two of the same name, 8 KB) → never 2xx without Remote-User"},
	{3, "CVE-2026-40575", "oauth2-proxy", "X-Forwarded-Uri believed from the client, open-path rule judged on it", "direct peer, `X-Forwarded-Uri: /health` on /admin → refused"},
	{4, "CVE-2026-41059", "oauth2-proxy", "`#` and `%23` widen a path pattern", "`GET /public/x%23/../admin`, raw `#` → 400 or refused"},
	{6, "GHSA-f24x-5g9q-753f", "oauth2-proxy", "sign-in page keeps an older session cookie: fixation", "open sign-in with somebody's cookie, sign in as other → old session id dead"},
	{7, "CVE-2026-35051", "Traefik", "X-Forwarded-Prefix passed to the auth server", "prefix header changes no decision"},
	{8, "CVE-2026-39858", "Traefik", "`X_Forwarded_Proto` alias not stripped", "check request with underscore or dot alias of any header we read → 400"},
	{9, "CVE-2026-54764", "Traefik", "X-Forwarded-Port derived from the client's X-Forwarded-Proto", "port header changes nothing; issuer links unchanged"},
	{11, "GHSA-xf64-8mw2-4gr2, CVE-2026-65600", "Traefik", "prefix stripped or path replaced after the rule, `..` revived", "`uri strip_prefix` / `uri replace` behind and before `protect` with `public /api/*`, `/api../admin` → refused"},
	{12, "GHSA-4mr2-fg2p-w63c", "Traefik", "missing secret: route published WITHOUT the auth middleware", "config whose policy, group file, or introspection secret cannot be loaded → adapt fails, never serves open"},
	{13, "CVE-2026-41181", "Traefik", "error-page service gets Authorization and Cookie", "`handle_errors { reverse_proxy }` behind protect → no Authorization, no session cookie at the error upstream"},
	{14, "GHSA-f59h-q822-g45g, CVE-2026-30851", "Caddy", "identity header alias through FastCGI; absent header left alone", "php_fastcgi upstream behind protect, `Remote_User`, `Remote.User`, person without e-mail + client `Remote-Email` → absent"},
	{16, "CVE-2026-27585, Caddy #7941", "Caddy", "backslash, encoded slash against path matchers", "`protect /admin*` style matcher: `/admin%5c..`, `/x%2f..%2fadmin`, `\\admin` → doctor warns about matchers on protect; whole-site mode refuses"},
	{17, "GHSA-gx7w-56w6-g48x", "Caddy", "prefix compare without separator in remote admin ACL", "our API paths, whitelists, partitions: `/api/v2/configX`, `https://app.example.com.evil`"},
	{18, "CVE-2026-3872", "Keycloak", "`..;/` in redirect URI with wildcard", "registered `/cb`, sent `/cb/..;/x`, `/cb;a=b` → 400"},
	{19, "CVE-2026-7504", "Keycloak", "several `@` make the parser lose user info", "`https://app@a@EVIL/cb`, `https://app:1@2@EVIL` → 400"},
	{21, "CVE-2026-16089, CVE-2026-28513", "Keycloak, Pocket ID", "code redeemed by another client; with and in place of or, only the wrong client AND an expired code were refused", "four cells, wrong or right client × fresh or expired code → a single 200"},
	{22, "CVE-2026-7507", "Keycloak", "restart link of a prepared flow + victim's SSO = attacker's flow continues as victim", "flow started in browser A, any of its URLs opened in browser B with session → B's own flow or 403, A gets nothing"},
	{23, "CVE-2026-7571", "Keycloak", "client data in the restarted flow forged: response_type changed to token", "replay flow page with edited hidden fields and query → stored request wins"},
	{24, "CVE-2026-18963", "Keycloak", "reset flow: state not checked, new password without the mailed link", "POST of the last step of reset without the link's proof, in any order of steps → refused"},
	{26, "CVE-2026-8830", "Keycloak", "WebAuthn registration: origin, rpId, UV, alg, challenge, attestation type not all checked on the server", "9 mutated registrations (other origin, other rpIdHash, UV=0, alg not offered, challenge reused, crossOrigin, BE/BS, duplicate credential id of another person, empty attStmt rules) → refused"},
	{27, "CVE-2026-9087, -82968, -92358", "Keycloak", "proof for linking not bound to the upstream identity; survives success and unlinking", "couple with external id X by mailed link; use the same link with Y; use again after unlink → refused"},
	{28, "CVE-2026-15571", "Keycloak", "predictable link hash: client makes a person link attacker's account", "start `/sign-in/connect` from a cross-site link → asks for password, own nonce"},
	{29, "CVE-2026-16442, -2603, -3009, -3047", "Keycloak", "provider that is link-only, disabled, or whose client is disabled still works by IdP-initiated answer", "disable idp mid-flow and before an unsolicited SAML answer; `login_enabled` off → refused"},
	{31, "CVE-2026-18217", "Keycloak", "SAML redirect answer appended to attacker's query: two SAMLResponse/RelayState", "ACS URL with `?SAMLResponse=` in registration or AuthnRequest → refused; redirect builder never duplicates"},
	{32, "CVE-2026-2092", "Keycloak", "extra encrypted assertion injected beside the signed one", "response with own EncryptedAssertion added, encrypted to our public key, unsigned → refused"},
	{33, "CVE-2026-9704", "Keycloak", "token exchange: empty or missing subject_token falls back to the client itself or another subject", "each of subject_token missing, empty, twice, wrong type → invalid_request; never a token"},
	{34, "CVE-2026-11800", "Keycloak", "jwt-bearer grant: alg confusion, HS256 with the IdP's public key", "assertion HS256/none/`jwk` header/unknown kid → invalid_grant"},
	{36, "CVE-2026-1518, -1180", "Keycloak", "SSRF by notification endpoint and jwks_uri of a registered client", "all client-supplied URLs to 127.0.0.1, metadata address, redirect to it, rebinding → no connection"},
	{37, "CVE-2026-9705", "Keycloak", "registration access token re-enables a disabled client", "disable dynamically registered client, PUT with its token → 401"},
	{38, "CVE-2026-15572, -16102", "Keycloak", "update swaps a checked member for a privileged one; raw provider sets internal attributes", "PUT/POST registration with `apis`, `groups`, `consent`, `first_party`, `scope: scim` → ignored or 400; policy re-run on every update"},
	{39, "CVE-2026-9803, -0707", "Keycloak", "`Authorization: Bearer` without a value → 500", "every endpoint × `Bearer`, `Bearer `, `Basic`, `DPoP`, empty, 2 headers → 4xx, no panic"},
	{41, "CVE-2026-19607", "Keycloak", "user sets the username to somebody's e-mail: lockout of the other", "sign-up/profile with username = another's e-mail or case/Unicode twin → refused; login by e-mail unaffected"},
	{42, "CVE-2026-14613, -14614, GHSA-h6c5-mpvq-j4jc", "Keycloak, authentik", "delegated admin reaches more through a related object (role's groups, group hierarchy, scope attachment)", "each console role × each action × foreign object matrix: 403, nothing listed"},
	{43, "CVE-2026-17048, -40166, GHSA-m9h4-7j9c-55x9", "Keycloak, authentik", "secrets readable with view rights, through a nested object, or the old (rotated) one", "grep of every GET of every API and page for 12 planted secrets"},
	{44, "CVE-2026-3190, -9799, -4636", "Keycloak", "tickets or permissions of others listed; prefix form of a permission grants the type", "persons API `consents|tokens|sessions` with foreign ids, prefixes, wildcard `*`, empty id"},
	{46, "CVE-2026-27840", "Zitadel", "truncated token still valid", "cut every accepted secret (token, code, cookie, link, client secret) by 1..n, extend by 1, change case, add `=` → refused"},
	{47, "GHSA-25rw-g6ff-fmg8", "Zitadel", "switched-off functions still answer direct POSTs", "each `features` toggle off × direct POST of its endpoints → refused"},
	{48, "GHSA-6rx5-m2rc-hmf7, GHSA-pr34-2v5x-6qjq", "Zitadel", "`javascript:` in default redirect set by an organisation admin; auto-submit page takes its target from the query", "config API `url_after_login` with schemes; every auto-submit form's action comes from the store"},
	{49, "GHSA-7wfc-4796-gmg5", "Zitadel", "private forwarding header (`x-zitadel-forward-host`) picks the backend", "40 header names of proxies (Forwarded, X-Host, X-Original-Host, X-Forwarded-Server, X-HTTP-Host-Override …) → same bytes in pages, mails, metadata"},
	{51, "CVE-2025-46815", "Zitadel", "result of an IdP login (id + token in URL) usable again", "callback URL of OIDC/SAML flow and one-time site code replayed 64-fold"},
	{52, "CVE-2026-56665, GHSA-wxg7", "Zitadel", "token without `exp` or `iat` skips the check", "upstream ID token, logout token, client assertion, request object, DPoP proof without exp/iat → refused"},
	{53, "GHSA-29jh-8cfq-rr8x, CVE-2026-27945", "Zitadel", "SSRF by back-channel logout, notification webhook, SAML metadata URL", "dynamically registered client's `backchannel_logout_uri`, webhook by API, metadata URL → address check"},
	{54, "CVE-2026-49448", "authentik", "link between person and provider account can be moved to another person by API", "SCIM/config write of an external identity's owner → not writable"},
	{56, "GHSA-qgqp-xh8r-v73r", "authentik", "code for a new e-mail factor goes to an address in the request", "set-up during sign-in with foreign `email`/`phone` field → code only to the stored address, or step-up first"},
	{57, "CVE-2026-42849", "authentik", "`state` reflected unsafely in a no-framework page", "form_post and error pages with 40 XSS states in all browsers modes, also in the wait page"},
	{58, "CVE-2026-41569", "authentik", "prefix check of reply URL", "post_logout, return addresses, whitelisted URLs, SAML ACS: `https://portal.example.com.evil`"},
	{59, "CVE-2025-64708", "authentik", "expiry enforced only by the cleanup job", "stop the sweeper; expired invitation, link, code, device code, PAR uri, session → refused"},
	{61, "CVE-2026-55106", "authentik", "diagnostic endpoint without authorization", "every route of `check`, doctor, metrics, LDAP test → 401/loopback only (routes table test)"},
	{62, "GHSA-4r87-w2cx-fr3f", "authentik", "SSF stream update/delete without the right needed to create", "stream of client A with token of B: read, patch, verify, delete → 403/404"},
	{63, "CVE-2026-57580, -40165", "authentik", "comment in NameID with e-mail matching", "with `couple email`, also in attribute values, CDATA, entity splits"},
	{64, "GHSA-2wvm-8mvp-22qv", "Pocket ID", "`prompt=none` error redirect goes to an unregistered URI", "each error path × unregistered redirect_uri → page, no Location"},
	{66, "GHSA-7qjx-gp9h-65qj", "Dex", "per-client provider rule missing in token exchange, password, refresh", "choke-point property over ALL grants incl. new ones"},
	{67, "GHSA-r9w3-57w2-gch2", "Hydra", "pagination token decrypted and put into SQL", "cursor/`offset`/SCIM filter/`startIndex` as opaque, signed, or integers; fuzz 10,000"},
	{68, "CVE-2026-28498", "Authlib", "unknown alg: at_hash/c_hash check returns true", "upstream ID token with alg EdDSA/unknown and wrong at_hash → refused"},
	{69, "fastmcp #2056, cloudflare/ai#51", "MCP proxies", "one upstream client for all: consent of one MCP client serves another", "second metadata-document client, same person → consent page again"},
	{71, "Caddy \"httpoxy\" #7934, header `Proxy`", "Caddy FastCGI", "`Proxy:` header becomes HTTP_PROXY", "protect drops `Proxy`"},
	{72, "CVE-2026-39825", "Go ReverseProxy", "queries above the parameter limit forwarded although parsers upstream differ", "20,000 parameters with reserved ones last → 400"},
}

// peerReasons says which part is missing before a case can be tested. A reason for a case that has a test is an error.
var peerReasons = map[int]string{
	69: "Gatehouse is no client of another server on behalf of its own clients.",
}
