package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
)

// MaxHookTimeout is the greatest duration of one exchange with a Hook, so it ends before the next try.
const MaxHookTimeout = 8 * time.Second

// HookConfig names the service that messages are posted to.
type HookConfig struct {
	URL string
	// Header is sent with each request. Its values may be secret, so they are never logged.
	Header http.Header
	// Key signs what is posted, as Standard Webhooks says. Without a key it is not signed.
	Key []byte
	// Timeout is for one exchange. Default: 5s, at most MaxHookTimeout.
	Timeout time.Duration
	// Client makes the requests. nil: one that reaches every network, since the operator has written the address
	Client *http.Client
	Now    func() time.Time
}

// Hook posts messages to an external service. It is safe for concurrent use.
type Hook struct {
	HookConfig
	client *http.Client
}

// NewHook returns a Hook, or says what is wrong with its configuration.
func NewHook(c HookConfig) (*Hook, error) {
	if err := CheckHookURL(c.URL); err != nil {
		return nil, err
	}
	if c.Timeout == 0 {
		c.Timeout = outbound.Timeout
	}
	if c.Timeout < 0 || c.Timeout > MaxHookTimeout {
		return nil, fmt.Errorf("timeout is not between 1ms and %s", MaxHookTimeout)
	}
	for name, values := range c.Header {
		for _, v := range values {
			if err := CheckHookHeader(name, v); err != nil {
				return nil, err
			}
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Client != nil {
		return &Hook{HookConfig: c, client: c.Client}, nil
	}
	client := outbound.New(true)
	client.Timeout = c.Timeout
	if t, ok := client.Transport.(*http.Transport); ok {
		t.ResponseHeaderTimeout = c.Timeout
	}
	return &Hook{HookConfig: c, client: client}, nil
}

// CheckHookURL demands https, or http at this machine, since messages hold codes and links to sign in with. The error
// does not repeat the URL, which may hold a secret.
func CheckHookURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("want a URL such as https://sms.example.com/send, without user and fragment")
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return errors.New("http is for loopback hosts only (localhost, 127.0.0.1, [::1]): use https")
	}
	return nil
}

var headerName = regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]{1,128}$") // RFC 9110 5.6.2

// CheckHookHeader says what is wrong with a header, without its value.
func CheckHookHeader(name, value string) error {
	switch {
	case !headerName.MatchString(name):
		return fmt.Errorf("header %q is not the name of a header", name)
	case strings.ContainsFunc(value, unicode.IsControl) || value == "":
		return fmt.Errorf("header %s is empty or has control characters", name)
	}
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection", "User-Agent", "Idempotency-Key", "Webhook-Id",
		"Webhook-Timestamp", "Webhook-Signature":
		return fmt.Errorf("header %s is ours to set", name)
	}
	return nil
}

// Post posts a message as JSON. id is the same at each try. An error that wraps outbox.ErrRefused means that the
// message is lost.
func (h *Hook) Post(ctx context.Context, id string, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("write: %w: %w", err, outbox.ErrRefused)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("no request can be made of the URL")
	}
	for name, values := range h.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Idempotency-Key", id) // draft-ietf-httpapi-idempotency-key-header 2
	signAs(req, h.Key, id, h.Now(), body)
	switch status, err := exchange(h.client, req); {
	case err != nil:
		return err
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusBadRequest, status == http.StatusGone, status == http.StatusRequestEntityTooLarge,
		status == http.StatusUnprocessableEntity:
		return fmt.Errorf("status %d: %w", status, outbox.ErrRefused) // the message itself is refused
	default:
		return fmt.Errorf("status %d", status) // perhaps a mistake in the configuration, which can be corrected
	}
}

// Check reports whether the service answers. It posts nothing and sends no secret.
func (h *Hook) Check(ctx context.Context) error {
	u, err := url.Parse(h.URL)
	if err != nil {
		return errors.New("the URL is invalid")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, u.Scheme+"://"+u.Host+"/", nil)
	if err != nil {
		return errors.New("no request can be made of the URL")
	}
	_, err = exchange(h.client, req)
	return err
}

// signAs adds the headers of a signed message. (Standard Webhooks, "Webhook Headers")
func signAs(req *http.Request, key []byte, id string, now time.Time, body []byte) {
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "gatehouse")
	if key == nil {
		return
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", "v1,"+Sign(key, id, stamp, body))
}

// exchange makes a request and returns the status of the answer. Errors do not name the URL, which may hold a secret.
func exchange(client *http.Client, req *http.Request) (status int, err error) {
	res, err := client.Do(req)
	if err != nil {
		if inner := new(url.Error); errors.As(err, &inner) {
			err = inner.Err
		}
		return 0, err
	}
	defer res.Body.Close()
	_, _ = outbound.Body(res) // so that the connection can be used again
	return res.StatusCode, nil
}
