package client

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/workload"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// TrustedIssuer is an issuer elsewhere whose tokens stand for a client: a build server or a cluster.
type TrustedIssuer struct {
	// The issuer as its tokens name it (iss). Required.
	Issuer string `json:"issuer"`
	// The audience (aud) that its tokens must have, alone. Default: the issuer of Gatehouse.
	Audience string `json:"audience,omitempty"`
	// The claims that its tokens must have. Required.
	Match []ClaimMatch `json:"match,omitempty"`
	// The id of the client that the tokens stand for. It has the auth_method workload. Required.
	Client string `json:"client"`
	// The most that is given for its tokens. Default: the scopes of the client.
	Scopes []string `json:"scopes,omitempty"`
	// A file or a URL with its public keys (JSON Web Key Set). A file is read when the configuration is loaded, a URL
	// when it is needed. Default: what its metadata name.
	JWKS string `json:"jwks,omitempty"`
	// The identity provider (idp) whose linked identities the subjects of identity assertions (ID-JAG) are. The issuer's
	// assertions are then taken in place of workloads' tokens. Default: none.
	IDJAG string `json:"id_jag,omitempty"`
	// Whether a token can be used until it is ten minutes old, on, or once, off. Default: off.
	Reuse string `json:"reuse,omitempty"`
}

// ClaimMatch is a claim that a token must have.
type ClaimMatch struct {
	// The name of the claim. Required.
	Claim string `json:"claim"`
	// The values, of which it has one. A * stands for any characters but a colon. Required.
	Values []string `json:"values"`
}

// ReadTrusted reads
//
//	trust_issuer <url> {
//		audience <text>
//		match    <claim> <pattern>...
//		client   <id>
//		scopes   <scope>...
//		jwks     <file or URL>
//		reuse    on|off
//		id_jag   <idp>
//	}
func ReadTrusted(d *caddyfile.Dispenser) (t TrustedIssuer, err error) {
	start := d.Token()
	if err := caddyfileutil.ReadName(d, &t.Issuer, workload.CheckIssuer); err != nil {
		return t, err
	}
	err = caddyfileutil.ReadBlock(d, "trust_issuer "+t.Issuer, &reference.TrustedIssuer, caddyfileutil.Subdirectives{
		"audience": caddyfileutil.Value(&t.Audience, nil),
		"match":    t.readMatch,
		"client":   caddyfileutil.Value(&t.Client, nil),
		"scopes":   caddyfileutil.Values(&t.Scopes, caddyfileutil.CheckScope),
		"jwks":     caddyfileutil.Value(&t.JWKS, nil),
		"reuse":    caddyfileutil.Value(&t.Reuse, checkSwitch),
		"id_jag":   caddyfileutil.Value(&t.IDJAG, caddyfileutil.CheckProviderID),
	})
	if err != nil {
		return t, err
	}
	return t, caddyfileutil.Adapt(start, func(r *caddyfileutil.Resolver) { t.Build(r) })
}

func (t *TrustedIssuer) readMatch(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("match: want a claim and one or more patterns, as in: match sub repo:example/app:ref:refs/heads/main")
	}
	for _, pattern := range args[1:] {
		if err := caddyfileutil.Check(d, "match", pattern, workload.CheckPattern); err != nil {
			return err
		}
	}
	t.Match = append(t.Match, ClaimMatch{Claim: args[0], Values: args[1:]})
	return caddyfileutil.NoMore(d, "match")
}

// Build returns the rule. It is validated as a whole, unless a value is wrong or not known yet.
func (t *TrustedIssuer) Build(r *caddyfileutil.Resolver) workload.Rule {
	of, before := fmt.Sprintf("trust_issuer %s: ", t.Issuer), r.ProblemCount()
	keys, uri := readKeys(r, of+"jwks", t.JWKS)
	rule := workload.Rule{
		Issuer: r.Plain("trust_issuer", t.Issuer, workload.CheckIssuer), Audience: r.Plain(of+"audience", t.Audience, nil),
		Client: r.Plain(of+"client", t.Client, nil),
		Scopes: r.List(of+"scopes", t.Scopes, caddyfileutil.CheckScope), Keys: keys, KeysURI: uri,
		Reuse:    r.Plain(of+"reuse", t.Reuse, checkSwitch) == "on",
		Provider: r.Plain(of+"id_jag", t.IDJAG, caddyfileutil.CheckProviderID),
	}
	unknown := caddyfileutil.HasPlaceholder(t.Issuer) || caddyfileutil.HasPlaceholder(t.Client) || caddyfileutil.HasPlaceholder(t.JWKS)
	for _, m := range t.Match {
		patterns := r.List(of+"match", m.Values, workload.CheckPattern)
		unknown = unknown || len(patterns) < len(m.Values)
		rule.Match = append(rule.Match, workload.Match{Claim: m.Claim, Patterns: patterns})
	}
	if r.ProblemCount() == before && !(unknown && r.Adapting()) {
		r.AddError(rule.Validate())
	}
	return rule
}
