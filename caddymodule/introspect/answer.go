package introspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

const (
	skew      = time.Minute // accepted difference between clocks
	maxClaims = 512         // of one answer
	nesting   = 4           // of claims within claims
	maxText   = 512         // bytes of a subject, username or client id
)

// serverAnswer is the response of the server about a token.
type serverAnswer struct {
	in      token.Introspection
	limited bool   // the server counts the uses
	bound   bool   // to a key
	why     string // an active token is not accepted. Empty: it is, or is not active
}

func (a *serverAnswer) weigh() int { return a.in.Weigh() }

// read turns the server's words into what protect knows of a caller. (RFC 7662 2.2) An error means that they make no
// sense; a token that cannot be accepted is inactive.
func (s *Server) read(doc map[string]any) (*serverAnswer, error) {
	active, ok := doc["active"].(bool)
	if !ok {
		return nil, failure("its answer does not say whether the token is active, by true or false")
	}
	if !active {
		return new(serverAnswer), nil
	}
	a, err := s.facts(doc)
	if err != nil {
		return nil, failure("%v", err)
	}
	if why := s.unacceptable(doc, a); why != "" {
		return &serverAnswer{why: why}, nil
	}
	return a, nil
}

// unacceptable tells why an active token is not accepted. Empty: it is.
func (s *Server) unacceptable(doc map[string]any, a *serverAnswer) string {
	now := s.now()
	kind := func(name string, fine ...string) bool {
		v, there := doc[name]
		text, _ := v.(string)
		return !there || slices.Contains(fine, strings.ToLower(text))
	}
	iss, there := doc["iss"]
	switch nbf, err := strictjson.Moment(doc, "nbf"); {
	case err != nil || nbf.After(now.Add(skew)):
		return "it is not valid yet (nbf)"
	case !a.in.ExpiresAt.IsZero() && !a.in.ExpiresAt.After(now):
		return "it has expired (exp)"
	case there && s.cfg.issuer != "" && iss != s.cfg.issuer:
		return "another issuer has issued it (iss)"
	case a.bound && a.in.Confirmation.IsZero():
		// RFC 7800 3: the sender has to prove possession of the key in a way that is unknown here.
		return "it is bound to a key in a way that is not known here (cnf)"
	case !kind("token_type", "bearer", "access_token", "dpop"), a.in.Confirmation.JKT == "" && !kind("token_type", "bearer", "access_token"):
		return "it is no bearer token, and is bound to no key (token_type)"
	case !kind("token_use", "access_token", "access"), !kind("typ", "bearer", "jwt", "at+jwt", "application/at+jwt"):
		return "it is not an access token (token_use, typ)"
	}
	return ""
}

// facts reads the claims of an active token.
func (s *Server) facts(doc map[string]any) (a *serverAnswer, err error) {
	var wrong error
	take := func(name string) string {
		v, err := text(doc, name)
		wrong = errors.Join(wrong, err)
		return v
	}
	list := func(name string) []string {
		v, err := strictjson.Texts(doc, name)
		wrong = errors.Join(wrong, err)
		return v
	}
	when := func(name string) time.Time {
		v, err := strictjson.Moment(doc, name)
		wrong = errors.Join(wrong, err)
		return v
	}
	a = new(serverAnswer)
	a.in = token.Introspection{
		Active: true, ClientID: take("client_id"), Subject: take("sub"), TokenType: token.TypeBearer, Audience: list("aud"),
		AMR: list("amr"), SessionID: take("sid"),
		IssuedAt: when("iat"), ExpiresAt: when("exp"), AuthTime: when("auth_time"),
	}
	for _, some := range list("scope") { // RFC 7662 2.2: one text with spaces. Some servers write an array.
		a.in.Scope = append(a.in.Scope, strings.Fields(some)...)
	}
	if azp := take("azp"); a.in.ClientID == "" {
		a.in.ClientID = azp
	}
	if limit, there := doc["usage_limit"]; there {
		n, ok := limit.(json.Number)
		a.limited = !ok || n != "0"
	}
	a.bound, a.in.Confirmation = doc["cnf"] != nil, confirmation(doc["cnf"])
	username, partition, acr := take("username"), take("partition"), take("acr")
	groups, err := s.groups(doc)
	if wrong = errors.Join(wrong, err); wrong != nil {
		return nil, wrong
	}
	// A client with a token of its own is not a person: its name could be mistaken for a person's.
	switch a.in.Subject {
	case "":
		a.in.Subject = a.in.ClientID
		return a, nil
	case a.in.ClientID:
		return a, nil
	}
	if a.in.ClientID != "" && username == "service-account-"+a.in.ClientID { // Keycloak
		return a, nil
	}
	if a.in.Level = s.cfg.levels[acr]; a.in.Level == 0 {
		a.in.Level = token.ACRLevel(acr)
	}
	p := &authn.Subject{
		ID: a.in.Subject, Active: true, Username: username, Partition: partition, Groups: groups, Profile: map[string]string{},
		Details: map[string][]string{},
	}
	if err := profile(doc, p); err != nil {
		return nil, err
	}
	a.in.Person = p
	return a, nil
}

// confirmation reads what the sender of the token must prove. (RFC 7800 3.1; RFC 9449 6.2; RFC 8705 3.2) Zero: it is
// nothing that can be checked here, or more than one thing.
func confirmation(cnf any) (out token.Confirmation) {
	members, _ := cnf.(map[string]any)
	if len(members) != 1 {
		return out
	}
	out.JKT, _ = members["jkt"].(string)
	out.X5T, _ = members["x5t#S256"].(string)
	return out
}

// groups reads the claims that name groups: a text, an array, or an object whose members are the names (Zitadel).
func (s *Server) groups(doc map[string]any) (out []string, err error) {
	for _, path := range s.cfg.groups {
		switch v := find(doc, path).(type) {
		case nil:
		case map[string]any:
			out = append(out, slices.Sorted(maps.Keys(v))...)
		default:
			names, err := strictjson.Texts(map[string]any{path: v}, path)
			if err != nil {
				return nil, err
			}
			out = append(out, names...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// find returns the claim of a name, or of a path of names with dots between.
func find(doc map[string]any, path string) any {
	if v, ok := doc[path]; ok {
		return v
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if inner, ok := doc[path[:i]].(map[string]any); ok {
			if v := find(inner, path[i+1:]); v != nil {
				return v
			}
		}
	}
	return nil
}

// extras are objects in which servers put claims of the sign-in: Ory Hydra, and Gatehouse itself.
var extras = []string{"ext", "user_details"}

// profile reads all claims: those within others by their path too, and those of extras by their plain name, unless the
// server says something else under it.
func profile(doc map[string]any, p *authn.Subject) error {
	if err := flatten(doc, "", p, nesting); err != nil {
		return err
	}
	verified := doc["email_verified"]
	for _, name := range extras {
		extra, _ := doc[name].(map[string]any)
		if p.Profile["email"] == "" && len(p.Details["email"]) == 0 {
			verified = extra["email_verified"]
		}
		plain := maps.Clone(extra)
		for claim := range extra {
			if _, said := doc[claim]; said || p.Profile[claim] != "" || len(p.Details[claim]) > 0 {
				delete(plain, claim)
			}
		}
		if err := flatten(plain, "", p, nesting-1); err != nil {
			return err
		}
	}
	// Anyone can claim an address, so one that is not said to be verified is not believed. (OpenID Connect Core 5.1)
	p.Profile["email_verified"] = strconv.FormatBool(verified == true)
	p.Details["email_verified"] = []string{p.Profile["email_verified"]}
	return nil
}

func flatten(doc map[string]any, prefix string, p *authn.Subject, deep int) error {
	for name, v := range doc {
		name = prefix + name
		switch v := v.(type) {
		case string:
			p.Profile[name] = v
		case bool:
			p.Profile[name] = strconv.FormatBool(v)
		case json.Number:
			p.Profile[name] = v.String()
		case []any:
			if list, err := strictjson.Texts(map[string]any{name: v}, name); err == nil && len(list) > 0 {
				p.Details[name] = list
			}
		case map[string]any:
			if deep == 0 {
				continue
			}
			if err := flatten(v, name+".", p, deep-1); err != nil {
				return err
			}
		}
		if len(p.Profile)+len(p.Details) > maxClaims {
			return fmt.Errorf("its answer has more than %d claims", maxClaims)
		}
	}
	return nil
}

// text returns a claim that is a string where it is there.
func text(doc map[string]any, name string) (string, error) {
	switch v := doc[name].(type) {
	case nil:
		return "", nil
	case string:
		if len(v) <= maxText && !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return v, nil
		}
	}
	return "", fmt.Errorf("%s is not a short text", name)
}
