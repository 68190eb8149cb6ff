#!/usr/bin/env bash
# Runs the modules of the OpenID Foundation's conformance plans as tests and prints a line for each: PASS or FAIL, its plan
# and its name. Modules that do not apply follow with the reason, then the output of failed ones.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
go test -count=1 -run='^(TestConformance|TestMessageSigning|TestAuthZEN)' -v ./authz ./caddymodule >"$out" 2>&1 || status=$?
sed -nE '
s|^ +--- ([A-Z]+): TestConformance/([^ ]+) .*|\1 openid \2|p
s|^ +--- ([A-Z]+): TestConformanceDynamic/([^ ]+) .*|\1 openid-dynamic \2|p
s|^ +--- ([A-Z]+): TestConformanceFAPI2(Clock)?/([^ ]+) .*|\1 fapi2-security-profile-final \3|p
s|^ +--- ([A-Z]+): TestMessageSigning/(fapi2[^ ]+) .*|\1 fapi2-message-signing-final \2|p
s|^ +--- ([A-Z]+): TestConformanceSSF/(errors/)?(openid[^ ]+) .*|\1 ssf-transmitter \3|p
s|^ +--- ([A-Z]+): TestAuthZEN/([^ ]+) .*|\1 authzen \2|p
' "$out" | grep -vE ' attack_' | sort -k2
cat <<'END'
N/A  fapi2-security-profile-final plain-fapi-tolerate-unregistered-redirect-uri: a redirect URI that is not registered is refused, which the profile allows
N/A  fapi2-security-profile-final test-claims-parameter-identity-claims: of an ecosystem with claims of its own
N/A  fapi2-security-profile-final test-essential-acr-sca-claim: of an ecosystem with levels of its own
N/A  fapi2-security-profile-final ensure-server-handles-non-matching-intent-id: of an ecosystem with intents
N/A  openid-dynamic oidcc-registration-logo-uri, -policy-uri, -tos-uri, -sector-uri, -sector-bad: these members are ignored, as RFC 7591 allows
N/A  openid-dynamic oidcc-idtoken-unsigned: an ID token is always signed
N/A  openid-dynamic oidcc-request-uri-unsigned, oidcc-request-uri-signed: references to request objects elsewhere are refused
N/A  authzen subject, resource and action search: not offered
N/A  oidcc-implicit, oidcc-hybrid: response types that return a code together with a token are not offered
N/A  oidcc-session-management: the check by a frame is not offered; browsers keep the cookies that it needs from frames
END
if ((status)); then
	grep -vE '^(=== | *--- PASS)' "$out" >&2
fi
exit "$status"
