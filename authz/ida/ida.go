// Package ida answers requests for verified claims with those that a person's evidence supports, together with the
// verifier, the method and the time. (OpenID Connect for Identity Assurance 1.0;
// docs/decisions/events.md#verified-claims)
package ida

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// Claim is the member of the parameter claims, of ID tokens and of the userinfo endpoint.
const Claim = "verified_claims"

// Framework is the trust framework: the levels of this server, which its operator gives a meaning.
const Framework = "urn:gatehouse:assurance"

// The types of evidence.
const (
	typeDocument = "document"
	typeRecord   = "electronic_record"
	recordSignIn = "sign_in" // at a provider that knows its people
)

// What metadata says about verified claims.
var (
	Claims     = []string{"given_name", "family_name", "birthdate"}
	Evidence   = []string{typeDocument, typeRecord}
	Documents  = []string{"idcard", "passport", "driving_permit", "residence_permit"}
	Records    = []string{recordSignIn}
	Frameworks = []string{Framework}
)

const (
	maxParts  = 8 // requests in one array
	maxMember = 32
)

// Request is the request of a client: one set of claims, or several.
type Request []part

// part is a set of claims, and what their verification must be like.
type part struct {
	verification map[string]*constraint // of members; one with nil is asked for, whatever it is
	byEvidence   bool                   // evidence is asked for
	evidence     evidenceRequest
	claims       map[string]*constraint
}

// constraint is the requirement for a value. nil: any.
type constraint struct {
	Value  any   `json:"value"`
	Values []any `json:"values"`
	// MaxAge is in seconds, of a time.
	MaxAge *int64 `json:"max_age"`
}

// Parse reads the member verified_claims of the parameter. Unknown members of it are ignored.
func Parse(raw json.RawMessage) (Request, error) {
	var list []json.RawMessage
	if b := bytes.TrimLeft(raw, " \t\r\n"); len(b) == 0 || b[0] != '[' {
		list = []json.RawMessage{raw}
	} else if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("verified_claims: %w", err)
	}
	if len(list) == 0 || len(list) > maxParts {
		return nil, errors.New("verified_claims: none, or too many")
	}
	var out Request
	for _, one := range list {
		var p struct {
			Verification map[string]json.RawMessage `json:"verification"`
			Claims       map[string]*constraint     `json:"claims"`
		}
		if err := json.Unmarshal(one, &p); err != nil {
			return nil, fmt.Errorf("verified_claims: %w", err)
		}
		if _, ok := p.Verification["trust_framework"]; !ok {
			return nil, errors.New("verified_claims: verification with trust_framework is required")
		}
		if len(p.Claims) == 0 || len(p.Claims) > maxMember || len(p.Verification) > maxMember {
			return nil, errors.New("verified_claims: claims is missing or empty, or has too many members")
		}
		asked, err := readVerification(p.Verification)
		if err != nil {
			return nil, err
		}
		asked.claims = p.Claims
		out = append(out, asked)
	}
	return out, nil
}

// readVerification reads what is asked of the verification, so a malformed request is refused and not misunderstood.
func readVerification(asked map[string]json.RawMessage) (p part, err error) {
	p.verification = map[string]*constraint{}
	for name, raw := range asked {
		switch name {
		case "evidence":
			p.byEvidence = true
			if p.evidence, err = readEvidence(raw); err != nil {
				return p, err
			}
		case "trust_framework", "assurance_level", "time":
			if p.verification[name], err = readConstraint(raw); err != nil {
				return p, fmt.Errorf("verified_claims: %s: %w", name, err)
			}
		}
	}
	return p, nil
}

func readConstraint(raw json.RawMessage) (c *constraint, err error) {
	return c, json.Unmarshal(raw, &c)
}

// Names are the claims that are asked for, in order.
func (r Request) Names() (out []string) {
	for _, p := range r {
		out = append(out, slices.Collect(maps.Keys(p.claims))...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Answer returns what is verified of a person and asked for, as the claim has it, or nil. allowed reports whether the
// client may know a claim.
func (r Request) Answer(a authn.Assurance, allowed func(claim string) bool, now time.Time) any {
	var out []map[string]any
	for i := range r {
		for j := range a {
			e := &a[j]
			if !e.Until.IsZero() && !e.Until.After(now) {
				continue // section 5.1: what does not hold any more is no verification
			}
			if set := r[i].answer(e, allowed, now); set != nil {
				out = append(out, set)
			}
		}
	}
	switch len(out) {
	case 0:
		return nil // an empty one would say something
	case 1:
		return out[0]
	}
	return out
}

// answer returns one set, or nil if a constraint on the verification is not met or no claim is left.
func (p *part) answer(e *authn.Evidence, allowed func(string) bool, now time.Time) map[string]any {
	verification, ok := p.verificationOf(e, now)
	if !ok {
		return nil
	}
	claims := map[string]any{}
	for name, asked := range p.claims {
		if value := e.Claims[name]; value != "" && allowed(name) && asked.fits(value) {
			claims[name] = value
		}
	}
	if len(claims) == 0 {
		return nil
	}
	return map[string]any{"verification": verification, "claims": claims}
}

// verificationOf says how something was verified: the members that are asked for, and the trust framework always. It
// is false if one of them is asked to be something else.
func (p *part) verificationOf(e *authn.Evidence, now time.Time) (map[string]any, bool) {
	out := map[string]any{"trust_framework": Framework}
	is := map[string]string{"trust_framework": Framework, "assurance_level": strconv.Itoa(e.Level), "time": e.Since.UTC().Format(time.RFC3339)}
	for name, value := range is {
		c, named := p.verification[name]
		if !named {
			continue
		}
		if !c.fits(value) || name == "time" && !c.isRecent(e.Since, now) {
			return nil, false
		}
		out[name] = value
	}
	if p.byEvidence {
		shown := p.evidence.of(e, now)
		if shown == nil {
			return nil, false
		}
		out["evidence"] = []any{shown}
	}
	return out, true
}

// fits reports whether a value is one that was asked for.
func (c *constraint) fits(value string) bool {
	switch {
	case c == nil:
		return true
	case c.Value != nil:
		return c.Value == value
	case c.Values != nil:
		return slices.ContainsFunc(c.Values, func(v any) bool { return v == value })
	}
	return true
}

// isRecent reports whether something has happened within the age that is asked for.
func (c *constraint) isRecent(at, now time.Time) bool {
	return c == nil || c.MaxAge == nil || *c.MaxAge >= 0 && now.Sub(at) <= time.Duration(min(*c.MaxAge, maxAge))*time.Second
}

// maxAge is longer than anything lasts that was verified, in seconds.
const maxAge = 200 * 366 * 24 * 60 * 60
