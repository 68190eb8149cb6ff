package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Answer is the result of a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Err    error // no answer: refused, reset, timed out, cut short
	Took   time.Duration
	From   string // address of the server
}

// Outcome is the outcome of a request as the client knows it.
type Outcome string

// The outcomes. Unknown: it may have happened or not, because there was no answer or a 5xx.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused"
	Unknown Outcome = "unknown"
)

// Outcome classifies the answer.
func (a Answer) Outcome() Outcome {
	switch {
	case a.Err != nil || a.Status >= 500:
		return Unknown
	case a.Status >= 400:
		return Refused
	default:
		return OK
	}
}

// Text returns a member of the JSON body.
func (a Answer) Text(member string) string {
	var m map[string]any
	if json.Unmarshal(a.Body, &m) != nil {
		return ""
	}
	s, _ := m[member].(string)
	return s
}

// Active returns the member active of an introspection, and whether the answer was an introspection.
func (a Answer) Active() (active, told bool) {
	var m struct {
		Active *bool `json:"active"`
	}
	if a.Err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &m) != nil || m.Active == nil {
		return false, false
	}
	return *m.Active, true
}

// do sends a request as any HTTP client does: once, unless its method allows more.
func (s *Server) do(c *http.Client, req *http.Request) Answer {
	begin := time.Now()
	res, err := c.Do(req)
	if err != nil {
		return Answer{Err: err, Took: time.Since(begin), From: s.Address}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	return Answer{Status: res.StatusCode, Header: res.Header, Body: body, Err: err, Took: time.Since(begin), From: s.Address}
}

// Get sends a GET with further headers given as name, value, name, value.
func (s *Server) Get(ctx context.Context, target string, headers ...string) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return Answer{Err: err}
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return s.do(s.HTTP, req)
}

// Post sends a form with Basic credentials.
func (s *Server) Post(ctx context.Context, path, id, secret string, form url.Values) Answer {
	return s.post(ctx, path, id, secret, form, "")
}

// post is Post with a DPoP proof, if it is not empty.
func (s *Server) post(ctx context.Context, path, id, secret string, form url.Values, proof string) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Issuer()+path, strings.NewReader(form.Encode()))
	if err != nil {
		return Answer{Err: err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if id != "" {
		req.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
	}
	if proof != "" {
		req.Header.Set("DPoP", proof)
	}
	return s.do(s.HTTP, req)
}

// PostJSON posts JSON.
func (s *Server) PostJSON(ctx context.Context, target string, body []byte) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	return s.do(s.HTTP, req)
}

// Issue requests a client-credentials token.
func (s *Server) Issue(ctx context.Context) Answer {
	return s.Post(ctx, "/oauth/token", MachineID, s.Machine, url.Values{"grant_type": {"client_credentials"}, "scope": {Scope}})
}

// Redeem exchanges a code.
func (s *Server) Redeem(ctx context.Context, client, code, verifier string) Answer {
	return s.Post(ctx, "/oauth/token", client, s.Web, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {Callback}, "code_verifier": {verifier},
	})
}

// Refresh rotates a refresh token.
func (s *Server) Refresh(ctx context.Context, client, token string) Answer {
	return s.Post(ctx, "/oauth/token", client, s.Web, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// Revoke revokes a token of a client.
func (s *Server) Revoke(ctx context.Context, client, token string) Answer {
	secret := s.Web
	if client == MachineID {
		secret = s.Machine
	}
	return s.Post(ctx, "/oauth/revoke", client, secret, url.Values{"token": {token}})
}

// Introspect asks whether a token is active.
func (s *Server) Introspect(ctx context.Context, token string) Answer {
	return s.Post(ctx, "/oauth/api/v2/token/introspect", APIID, s.API, url.Values{"token": {token}})
}

// Call calls the protected API with a bearer token.
func (s *Server) Call(ctx context.Context, token string, headers ...string) Answer {
	return s.Get(ctx, s.APISite()+"/orders", append([]string{"Authorization", "Bearer " + token}, headers...)...)
}

// Metric sums the samples of a metric whose labels contain all of with. It returns 0 if there are no such samples.
func (s *Server) Metric(ctx context.Context, name string, with ...string) float64 {
	sum := 0.0
	for line := range bytes.Lines(s.Get(ctx, s.Admin()+"/metrics").Body) {
		l := strings.TrimSpace(string(line))
		rest, ok := strings.CutPrefix(l, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		labels, value, ok := strings.Cut(rest, " ")
		if i := strings.LastIndex(rest, "} "); i >= 0 {
			labels, value, ok = rest[:i], rest[i+2:], true
		}
		for _, w := range with {
			ok = ok && strings.Contains(labels, w)
		}
		var v float64
		if ok && json.Unmarshal([]byte(value), &v) == nil {
			sum += v
		}
	}
	return sum
}
