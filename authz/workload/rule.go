package workload

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

// Rule says which tokens of an issuer stand for which client.
type Rule struct {
	Issuer   string   // as iss names it
	Audience string   // that the tokens must have, alone. Default: our issuer
	Match    []Match  // each must fit
	Client   string   // id of the client
	Scopes   []string // the most that the workload gets. Default: those of the client
	// Keys of the issuer, or the address of its key set. Default: what its metadata say.
	Keys    *jwa.KeySet
	KeysURI string
	// Provider takes identity assertions of the issuer in place of workloads' tokens: their subjects are identities at
	// this provider. Empty: workloads.
	Provider string
	// Reuse takes a token more than once, until it is ten minutes old.
	Reuse bool
}

// Match is a claim and the patterns of which one must fit.
type Match struct {
	Claim    string
	Patterns []string
}

// Validate returns all that is wrong with a rule, or nil.
func (r *Rule) Validate() error {
	var p client.Problems
	p.AddErr(CheckIssuer(r.Issuer))
	if r.Client == "" {
		p.Addf("client is missing: the client that the workload stands for")
	}
	if r.Provider != "" && r.Reuse {
		p.Addf("reuse: an identity assertion counts once: remove reuse")
	}
	if len(r.Match) == 0 && r.Provider == "" {
		p.Addf("match is missing: without it everybody who gets tokens of the issuer would be the client. Write for example `match sub repo:example/app:ref:refs/heads/main`")
	}
	for _, m := range r.Match {
		if m.Claim == "" || len(m.Patterns) == 0 {
			p.Addf("match: want a claim and a pattern")
		}
		for _, pattern := range m.Patterns {
			if err := CheckPattern(pattern); err != nil {
				p.Addf("match %s: %w", m.Claim, err)
			}
		}
	}
	if r.Keys != nil && len(r.Keys.Keys) == 0 {
		p.Addf("jwks: it has no key")
	}
	if r.KeysURI != "" {
		if _, err := readAddress(r.KeysURI); err != nil {
			p.Addf("jwks: %w", err)
		}
	}
	if err := p.Join(); err != nil {
		return fmt.Errorf("trust_issuer %s: %w", r.Issuer, err)
	}
	return nil
}

// CheckIssuer says what is wrong with the address of an issuer.
func CheckIssuer(s string) error {
	_, err := readAddress(s)
	return err
}

// readAddress reads an https address, or an http one of this machine.
func readAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(s, "?#* ") || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, fmt.Errorf("%q is not an address such as https://token.actions.githubusercontent.com", s)
	}
	if u.Scheme == "http" && !loopback.Is(u.Hostname()) {
		return nil, fmt.Errorf("%q must be https", s)
	}
	return u, nil
}

// CheckPattern says what is wrong with a pattern.
func CheckPattern(pattern string) error {
	switch {
	case strings.Trim(pattern, "*:/ ") == "":
		return errors.New("the pattern fits everybody: name at least an organisation, a project or a namespace")
	case !client.IsText(pattern):
		return errors.New("the pattern has control characters")
	}
	return nil
}

// subjects are the forms of the subjects of well-known build servers and clusters, as the parts between their colons,
// and how many of the parts each has at least.
var subjects = []struct {
	parts []string
	least int
}{
	{[]string{"repo", "*", "ref", "refs/heads/main"}, 3},
	{[]string{"project_path", "*", "ref_type", "branch", "ref", "main"}, 6},
	{[]string{"system", "serviceaccount", "*", "*"}, 4},
	{[]string{"organization", "*", "project", "*", "workspace", "*", "run_phase", "*"}, 8},
}

// Longer returns what was probably meant by a pattern that has fewer parts than the subjects of its form, and so fits
// none of them. "": it can fit.
func Longer(claim, pattern string) string {
	parts := strings.Split(pattern, ":")
	for _, form := range subjects {
		if claim == "sub" && parts[0] == form.parts[0] && len(parts) < form.least {
			return strings.Join(append(parts, form.parts[len(parts):]...), ":")
		}
	}
	return ""
}

// fits reports whether a text has a form. A * stands for any characters but a colon, at least one, since build servers
// and clusters separate the parts of a name by colons.
func fits(pattern, s string) bool {
	parts := strings.Split(pattern, ":")
	texts := strings.Split(s, ":")
	if len(parts) != len(texts) {
		return false
	}
	for i := range parts {
		if !fitsPart(strings.Split(parts[i], "*"), texts[i]) {
			return false
		}
	}
	return true
}

// fitsPart reports whether s is the pieces with at least one character between each two.
func fitsPart(pieces []string, s string) bool {
	if len(pieces) == 1 {
		return s == pieces[0]
	}
	if !strings.HasPrefix(s, pieces[0]) {
		return false
	}
	s = s[len(pieces[0]):]
	for _, piece := range pieces[1 : len(pieces)-1] {
		if s == "" {
			return false
		}
		i := strings.Index(s[1:], piece) // the first place leaves most to the others
		if i < 0 {
			return false
		}
		s = s[1+i+len(piece):]
	}
	last := pieces[len(pieces)-1]
	return len(s) > len(last) && strings.HasSuffix(s, last)
}
