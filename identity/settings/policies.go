package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// Policies are the rules that sites share, by the names that sites call them. What a rule means, and whether it can be
// used, is for Config.CheckPolicy to say. (docs/decisions/operation.md#policies-of-the-configuration-api)
type Policies map[string]Policy

// Policy is a list of rules, as in the block policy of the Caddyfile.
type Policy struct {
	Deny   []PolicyRule `json:"deny,omitempty" check:"most,200"`
	Allow  []PolicyRule `json:"allow,omitempty" check:"most,200"`
	Public []string     `json:"public,omitempty" check:"most,200,text"`
}

// PolicyRule fits a request if all of its parts do.
type PolicyRule struct {
	Name string `json:"name,omitempty" check:"text,64"`
	// Match are sets of Caddy's matchers in JSON, of which one must fit: [{"path": ["/admin/*"], "method": ["POST"]}].
	Match   []map[string]any `json:"match,omitempty" check:"most,50,most,20,key"`
	Need    PolicyNeed       `json:"need,omitzero"`
	When    []string         `json:"when,omitempty" check:"most,50,text"`
	Message string           `json:"message,omitempty" check:"text,500"`
}

// PolicyNeed are the requirements of a rule for the caller, all of which must be met.
type PolicyNeed struct {
	Groups    []string      `json:"groups,omitempty" check:"most,200,text"`
	Scopes    []string      `json:"scopes,omitempty" check:"most,200,scope"`
	Level     int           `json:"level,omitempty" check:"int,0,4"`
	Assurance int           `json:"assurance,omitempty" check:"int,0,4"`
	MaxAge    string        `json:"max_age,omitempty" check:"text,32"`
	Claims    []PolicyClaim `json:"claims,omitempty" check:"most,50"`
	Persons   []string      `json:"persons,omitempty" check:"most,200,text"`
	Clients   []string      `json:"clients,omitempty" check:"most,200,text"`
	Providers []string      `json:"providers,omitempty" check:"most,200,text"`

	DeviceBound bool `json:"device_bound,omitempty"`
}

// PolicyClaim is a claim and the values that fit.
type PolicyClaim struct {
	Name   string   `json:"name" rest:"required" check:"text"`
	Values []string `json:"values" rest:"required" check:"most,200,text"`
}

// FixedPolicy is a policy of the Caddyfile.
type FixedPolicy struct {
	Policy
	Place string // file:line. Empty: unknown
}

// refuseEmptyLists refuses a list of a policy that is there and names nothing. Who writes it means no one, and as an
// absent part of the rule it would let in everyone.
func (u *Units) refuseEmptyLists() error {
	var empty []jsonapi.Problem
	u.visit(unitNamed("policies"), visitor{value: func(v reflect.Value, p place) {
		harmless := p.path == "policies{}.public" || p.path == "policies{}.deny"
		if v.Kind() == reflect.Slice && !v.IsNil() && v.Len() == 0 && !harmless {
			empty = append(empty, jsonapi.ProblemAt(p.at, coded.New("empty_list", "is empty: leave it out if it does not matter")))
		}
	}})
	if len(empty) > 0 {
		return jsonapi.Invalid(empty[:min(len(empty), maxProblems)]...)
	}
	return nil
}

// checkPolicies checks the policies that an edit changes, and refuses to take away one that a site uses.
func (s *Service) checkPolicies(from, to *Units) error {
	for _, name := range slices.Sorted(maps.Keys(to.Policies)) {
		p := to.Policies[name]
		if old, stored := from.Policies[name]; stored && bytes.Equal(encode(old), encode(p)) {
			continue
		}
		at := "policies." + shown(name)
		if fixed, ok := s.cfg.Policies[name]; ok {
			return refusal(at, coded.Errorf("policy_fixed", "place", "is written in the Caddyfile%s and cannot be changed here", atPlace(fixed.Place)))
		}
		if s.cfg.CheckPolicy == nil {
			return refusal(at, coded.New("no_policies", "policies cannot be used here"))
		}
		if path, err := s.cfg.CheckPolicy(name, p); err != nil {
			return invalid(strings.TrimSuffix(at+"."+path, "."), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from.Policies)) {
		if _, kept := to.Policies[name]; kept || s.cfg.PolicyUsers == nil || s.isFixedPolicy(name) {
			continue
		}
		if users := s.cfg.PolicyUsers(name); len(users) > 0 {
			return refusal("policies."+shown(name),
				coded.Errorf("policy_used", "sites", "is used by %s: take it out of `protect` there first", strings.Join(users, ", ")))
		}
	}
	return nil
}

func (s *Service) isFixedPolicy(name string) bool {
	_, ok := s.cfg.Policies[name]
	return ok
}

func atPlace(place string) string {
	if place == "" {
		return ""
	}
	return " (" + place + ")"
}

// changesOfPolicies returns what differs between two sets of policies, each policy for itself.
func changesOfPolicies(from, to Policies) (out []Change) {
	names := maps.Clone(from)
	maps.Copy(names, to)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := encodePolicy(from, name), encodePolicy(to, name)
		if !bytes.Equal(a, b) {
			out = append(out, Change{Path: "policies." + name, From: a, To: b})
		}
	}
	return out
}

func encodePolicy(ps Policies, name string) json.RawMessage {
	p, ok := ps[name]
	if !ok {
		return json.RawMessage("null")
	}
	return encode(p)
}

// The sources of a policy.
const (
	sourceCaddyfile = "CADDYFILE"
	sourceAPI       = "API"
)

// PolicyEntry is a policy in the list of all.
type PolicyEntry struct {
	Name   string `json:"name"`
	Source string `json:"source" check:"enum,CADDYFILE|API"`
	Place  string `json:"place,omitempty"` // in the Caddyfile
	// Overruled tells that the Caddyfile has a policy of the same name, which counts.
	Overruled bool     `json:"overruled,omitempty"`
	UsedBy    []string `json:"used_by"`
	Policy    Policy   `json:"policy"`
}

// Stored reports whether the policy is stored, and not written in the Caddyfile.
func (e *PolicyEntry) Stored() bool { return e.Source == sourceAPI }

// Policies lists the policies of the Caddyfile and those that are stored.
func (s *Service) Policies(ctx context.Context) ([]PolicyEntry, error) {
	st, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return s.entries(st), nil
}

// CheckPolicy returns what is wrong with a policy that is to be stored.
func (s *Service) CheckPolicy(ctx context.Context, name string, p Policy) error {
	_, err := s.update(ctx, edit{dry: true, apply: func(u *Units) error {
		u.Policies[name] = p
		return nil
	}})
	return err
}

// entries lists the policies of the Caddyfile and those of a state.
func (s *Service) entries(st *state) []PolicyEntry {
	users := func(name string) []string {
		if s.cfg.PolicyUsers == nil {
			return []string{}
		}
		return append([]string{}, s.cfg.PolicyUsers(name)...)
	}
	out := []PolicyEntry{}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Policies)) {
		p := s.cfg.Policies[name]
		out = append(out, PolicyEntry{Name: name, Source: sourceCaddyfile, Place: p.Place, UsedBy: users(name), Policy: p.Policy})
	}
	for _, name := range slices.Sorted(maps.Keys(st.units.Policies)) {
		e := PolicyEntry{Name: name, Source: sourceAPI, Overruled: s.isFixedPolicy(name), Policy: st.units.Policies[name], UsedBy: []string{}}
		if !e.Overruled {
			e.UsedBy = users(name)
		}
		out = append(out, e)
	}
	return out
}

// OverruledPolicies returns the names of the policies that count for nothing, since the Caddyfile has others of the
// same names, with their places there.
func (s *Service) OverruledPolicies(u *Units) map[string]string {
	out := map[string]string{}
	for name := range u.Policies {
		if fixed, ok := s.cfg.Policies[name]; ok {
			out[name] = fixed.Place
		}
	}
	return out
}
