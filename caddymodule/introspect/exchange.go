package introspect

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/strictjson"
	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

const (
	maxBody  = 256 << 10 // bytes of an answer
	maxDepth = 16        // of its JSON

	mediaJSON   = "application/json"
	mediaSigned = "application/token-introspection+jwt" // RFC 9701 4

	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// exchange asks the server and returns its answer, whose signature has been verified if there has to be one.
func (s *Server) exchange(ctx context.Context, text string, again bool) (map[string]any, error) {
	if !s.breaker.Allow(s.now()) {
		return nil, failure("it has not answered several times, and is left alone for some seconds")
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, failure("too many requests wait for it")
	}
	asked := s.now()
	req, media, err := s.question(ctx, text, again)
	if err != nil {
		return nil, err
	}
	body, answered, err := s.send(req, media)
	s.breaker.Done(s.now(), answered)
	if err != nil {
		return nil, err
	}
	if media == mediaSigned {
		return s.verify(ctx, string(body), asked)
	}
	return readObject(body)
}

// question is the request. (RFC 7662 2.1)
func (s *Server) question(ctx context.Context, text string, again bool) (req *http.Request, media string, err error) {
	form := url.Values{"token": {text}, "token_type_hint": {"access_token"}}
	if again {
		// An extension of Gatehouse, which is sent only where a usage limit has been told of: the use has been counted.
		form.Set("recheck", "true")
	}
	basic := ""
	switch s.cfg.auth {
	case authPost:
		form.Set("client_id", s.cfg.client)
		form.Set("client_secret", s.cfg.secret.Reveal())
	case authKey:
		assertion, err := s.assertion()
		if err != nil {
			return nil, "", failure("%v", err)
		}
		form.Set("client_id", s.cfg.client)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
	default: // RFC 6749 2.3.1: both parts are form-encoded first
		basic = base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(s.cfg.client) + ":" + url.QueryEscape(s.cfg.secret.Reveal())))
	}
	req, err = http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, "", failure("its address is not valid")
	}
	if basic != "" {
		req.Header.Set("Authorization", "Basic "+basic)
	}
	media = mediaJSON
	if s.cfg.jwks != "" {
		media = mediaSigned
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", media)
	return req, media, nil
}

// send makes a request and reads the answer. answered is false if the server is down or does not let us in.
func (s *Server) send(req *http.Request, media ...string) (body []byte, answered bool, err error) {
	req.Header.Set("Accept-Encoding", "identity") // a compressed answer is refused, not inflated
	res, err := s.client.Do(req)                  //nolint:gosec // the operator has written the address
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // without the address
		}
		return nil, false, failure("no answer: %v", err)
	}
	defer res.Body.Close() //nolint:errcheck // it has been read
	body, err = io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	got, _, mediaErr := mime.ParseMediaType(res.Header.Get("Content-Type"))
	encoding := res.Header.Get("Content-Encoding")
	switch status := res.StatusCode; {
	case err != nil:
		return nil, false, failure("its answer ended early")
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, false, failure("status %d: it does not accept the credentials of introspect client", status)
	case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError:
		return nil, false, failure("status %d", status)
	case status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return nil, true, failure("status %d: redirects are not followed", status)
	case status != http.StatusOK:
		return nil, true, failure("status %d", status)
	case len(body) > maxBody:
		return nil, true, failure("its answer is larger than %d bytes", maxBody)
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return nil, true, failure("its answer is compressed, which was not asked for")
	case webpage.Is(body):
		return nil, true, failure("its answer is an HTML page, not %s: the address is that of a page, or a proxy answers in its place", media[0])
	case mediaErr != nil || got != media[0] && !slices.Contains(media[1:], got):
		return nil, true, failure("its answer is not %s", media[0])
	}
	return body, true, nil
}

// readObject reads one JSON object. A name that is there twice is refused, since two readers could take different ones
// for true.
func readObject(raw []byte) (map[string]any, error) {
	if strictjson.Check(raw, maxDepth) == nil {
		if v, err := strictjson.Value(raw); err == nil {
			if doc, ok := v.(map[string]any); ok {
				return doc, nil
			}
		}
	}
	return nil, failure("its answer is not one JSON object")
}
