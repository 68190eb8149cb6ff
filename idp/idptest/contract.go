package idptest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// Subject is a Redirector under test. The test plays the provider.
type Subject struct {
	idp.Redirector
	// Answer makes a new answer of the provider to the result of Begin. The answer signs a person in.
	Answer func(n *idp.Next) *http.Request
	// Down makes the provider hang until the test ends. nil: this Redirector makes no requests.
	Down func()
}

// flowName has the form of the identity service's flow names.
const flowName = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

// TestRedirector tests the contract of every Redirector, whatever its protocol. Each test gets a new subject.
func TestRedirector(t *testing.T, newSubject func(t *testing.T) Subject) {
	t.Helper()
	begin := func(t *testing.T, s Subject, flow string) *idp.Next {
		t.Helper()
		n, err := s.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1})
		if err != nil || n == nil || (n.URL == "") == (n.Form == nil) {
			t.Fatalf("Begin = %+v, %v, want a URL or a form", n, err)
		}
		return n
	}
	t.Run("signs in", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		n := begin(t, s, flowName)
		if len(n.State) > 16<<10 {
			t.Errorf("State has %d bytes, want 16 KiB at most", len(n.State))
		}
		r := s.Answer(n)
		if flow, err := s.FlowOf(r); err != nil || flow != flowName {
			t.Errorf("FlowOf = %q, %v, want %q", flow, err, flowName)
		}
		id, err := s.Finish(t.Context(), n.State, r)
		if err != nil {
			t.Fatalf("Finish = %v", err)
		}
		if id.Subject == "" || id.Issuer == "" || id.Level < 1 || id.Level > 4 || len(id.Held) > 32<<10 {
			t.Errorf("Finish = %+v, want a subject of an issuer and a level of 1 to 4", id)
		}
	})
	t.Run("accepts an answer once", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		n := begin(t, s, flowName)
		r := s.Answer(n)
		again := r.Clone(t.Context())
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		again.Form, again.PostForm, again.Body = r.Form, r.PostForm, http.NoBody
		if _, err := s.Finish(t.Context(), n.State, r); err != nil {
			t.Fatalf("Finish = %v", err)
		}
		refused(t, s, "the same answer again", n.State, again)
	})
	t.Run("refuses an answer to another flow", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		one, two := begin(t, s, flowName), begin(t, s, strings.ToUpper(flowName))
		refused(t, s, "the answer to another flow", two.State, s.Answer(one))
	})
	t.Run("refuses what it cannot read", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		n := begin(t, s, flowName)
		for _, body := range []string{
			"", "state=" + flowName, "RelayState=" + flowName, "SAMLResponse=!&RelayState=" + flowName, "%zz",
			"code=x&state=" + flowName + "&iss=https://evil.example",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				r := request(t, method, body)
				if _, err := s.FlowOf(r); err == nil {
					if id, err := s.Finish(t.Context(), n.State, r); err == nil {
						t.Errorf("Finish(%s %q) = %+v, want it refused", method, body, id)
					}
				}
			}
		}
	})
	t.Run("refuses an answer without a request", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		n := begin(t, s, flowName)
		refused(t, s, "an answer without its flow", nil, s.Answer(n))
	})
	t.Run("answers in time", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		if s.Down == nil {
			return
		}
		s.Down()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := s.Begin(ctx, idp.Request{Flow: flowName, MaxAge: -1})
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				t.Error("Begin has reached a provider that hangs")
			}
		case <-time.After(2 * time.Minute):
			t.Error("Begin waits for a provider that hangs")
		}
	})
	t.Run("closes", func(t *testing.T) {
		t.Parallel()
		s := newSubject(t)
		if c, ok := s.Redirector.(idp.Closer); ok {
			if err := errors.Join(c.Close(), c.Close()); err != nil {
				t.Errorf("Close twice = %v", err)
			}
		}
	})
}

// refused asserts that an answer is refused with the error that the service expects.
func refused(t *testing.T, s Subject, what string, state []byte, r *http.Request) {
	t.Helper()
	if _, err := s.FlowOf(r); err != nil {
		return
	}
	id, err := s.Finish(t.Context(), state, r)
	if err == nil {
		t.Fatalf("Finish(%s) = %+v, want it refused", what, id)
	}
	if !errors.As(err, new(*idp.Invalid)) && !errors.As(err, new(*idp.Rejection)) && !errors.Is(err, idp.ErrReplayed) {
		t.Errorf("Finish(%s) = %v, want an *Invalid", what, err)
	}
}

func request(t *testing.T, method, body string) *http.Request {
	t.Helper()
	target := "https://auth.example.com/callback"
	if method == http.MethodGet {
		target += "?" + body
		body = ""
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}
