package protect

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/sitepath"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	maxBearer = 16 << 10 // bytes of a bearer token; a JWT with a signature of ML-DSA has several thousand
)

// credentials holds the credentials that a request carried when it reached its first protect. A later protect finds
// them here: by then they have been taken out of the request. It prints as "[redacted]".
type credentials struct {
	authorization, cookies, proofs []string
}

const arrivalVar = "gatehouse.received"

func (*credentials) String() string { return "[redacted]" }

func receive(r *http.Request) *credentials {
	if rec, ok := caddyhttp.GetVar(r.Context(), arrivalVar).(*credentials); ok {
		return rec
	}
	return &credentials{authorization: r.Header["Authorization"], cookies: r.Header["Cookie"], proofs: r.Header[dpop.Header]}
}

// cookie returns the one value of a cookie of the jar, or "".
func (rec *credentials) cookie(j cookie.Jar, kind string) string {
	if len(rec.cookies) == 0 {
		return ""
	}
	return j.Get(&http.Request{Header: http.Header{"Cookie": rec.cookies}}, kind)
}

// bearer returns the token of the Authorization header, or "" without one. byProof says that it has the scheme DPoP.
// Other schemes than that and Bearer belong to the upstream. (RFC 6750 2.1, RFC 9449 7.1)
func (rec *credentials) bearer() (token string, byProof bool, bad *refusal) {
	switch len(rec.authorization) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", false, badToken("the Authorization header is sent more than once")
	}
	rest, is := cutScheme(rec.authorization[0], "Bearer")
	if !is {
		if rest, byProof = cutScheme(rec.authorization[0], dpop.Scheme); !byProof {
			return "", false, nil
		}
	}
	token = strings.TrimLeft(rest, " ") // RFC 9110 11.4: 1*SP before the token
	if len(token) == len(rest) || len(rest) > maxBearer || !isB64Token(token) {
		return "", byProof, badToken("the bearer token is malformed")
	}
	return token, byProof, nil
}

// isForeign reports whether a bearer token is that of the application, in a request with a session of the site: the
// scripts of many applications send tokens of their own. The session decides then, and the token goes on to the
// upstream. (docs/decisions/gateway.md#bearer-tokens)
func (p *Protect) isForeign(r *http.Request, rec *credentials, text string, bad *refusal) bool {
	if !p.Login || len(rec.authorization) != 1 || text == "" && bad == nil || isOurs(text, p.issuer) {
		return false
	}
	if _, rest, _ := strings.Cut(rec.authorization[0], " "); strings.TrimSpace(rest) == "" {
		return false
	}
	site := p.siteOf(r)
	return site != nil && rec.cookie(site.jar, kindSession) != ""
}

// isOurs reports whether a token has the form of one of this issuer, valid or not.
func isOurs(text, issuer string) bool {
	if secret.HasPrefix(text) {
		return true
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(raw, &claims) == nil && claims.Issuer == issuer
}

// cutScheme returns what follows a scheme in an Authorization header.
func cutScheme(header, scheme string) (rest string, is bool) {
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", false
	}
	rest = header[len(scheme):]
	return rest, rest == "" || !httpguts.IsTokenRune(rune(rest[0])) // otherwise a scheme whose name starts alike
}

// badToken refuses a token that is sent in a way that is not allowed. RFC 6750 3: the answer has a challenge.
func badToken(text string) *refusal {
	f := malformed(text)
	f.challenge = errorParams(f.code, text)
	return f
}

// isB64Token: RFC 6750 2.1, 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
func isB64Token(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		if c := s[i]; !sitepath.Unreserved(c) && c != '+' && c != '/' {
			return false
		}
	}
	return s != ""
}

// tokenInQuery refuses a token in the URL, where logs and Referer headers would carry it on. (RFC 6750 2.3, RFC 9700
// 4.3.2)
func tokenInQuery(rawQuery string) *refusal {
	if rawQuery == "" {
		return nil
	}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if sitepath.QueryKey(pair) == "access_token" {
			return badToken("a token in the query is not accepted: send it in the Authorization header").by(refusals.TokenInQuery)
		}
	}
	return nil
}
