// Package pwned reports whether a password is known from a breach: by a file, or by a service that learns only five
// digits of its hash.
package pwned

import (
	"context"
	"crypto/sha1" //nolint:gosec // the hash that such lists use; nothing depends on its strength
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/outbound"
)

// Public is the service that is asked unless a service or a file is configured.
// (https://haveibeenpwned.com/API/v3#PwnedPasswords)
const Public = "https://api.pwnedpasswords.com/range/"

const (
	defaultTimeout = time.Second
	prefixLength   = 5 // digits of the hash that the service learns
)

// Config names the service and the file.
type Config struct {
	// URL is the address to which the first five digits of the hash are added. Default: Public, unless there is a file.
	URL string
	// File lists hashes, sorted, or passwords. It is asked first, and always answers. It may be
	// empty.
	File string
	// Timeout is for one question. Default: 1s.
	Timeout time.Duration
	// Closed refuses a password when the service does not answer. Default: it is accepted.
	Closed bool
}

// Checker recognizes passwords from breaches. It is safe for concurrent use.
type Checker struct {
	cfg    Config
	client *http.Client
	list   *list // may be nil
	fault  error // of the file
}

// New returns a checker. It opens the file, and makes no request; see Fault. client may be nil.
func New(c Config, client *http.Client) (*Checker, error) {
	if c.URL == "" && c.File == "" {
		c.URL = Public
	}
	if c.URL != "" {
		if err := CheckURL(c.URL); err != nil {
			return nil, fmt.Errorf("breach: url: %w", err)
		}
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if client == nil {
		client = outbound.New(true) // the operator wrote the address, perhaps that of a mirror in the intranet
	}
	b := &Checker{cfg: c, client: client}
	if c.File != "" {
		b.list, b.fault = openList(c.File)
	}
	return b, nil
}

// Fault returns why the file cannot be used, or nil. A password that the service does not know is then one of which
// Breached cannot tell.
func (c *Checker) Fault() error { return c.fault }

// CheckURL returns what is wrong with the address of a service.
func CheckURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" || u.User != nil || u.RawQuery != "" ||
		!strings.HasSuffix(u.Path, "/") {
		return errors.New("want a URL that ends with a slash, such as " + Public)
	}
	return nil
}

// Close closes the file. The checker must not be used afterwards.
func (c *Checker) Close() error {
	if c.list == nil {
		return nil
	}
	return c.list.close()
}

// Closed reports whether a password is refused when the service does not answer.
func (c *Checker) Closed() bool { return c.cfg.Closed }

// Breached reports whether a password is known from a breach. It ends within the timeout. An error means that it cannot
// tell; the error holds nothing of the password.
func (c *Checker) Breached(ctx context.Context, password string) (bool, error) {
	sum := sha1.Sum([]byte(password)) //nolint:gosec // see the import
	if c.list != nil {
		known, err := c.list.has(sum)
		if err != nil {
			return false, fmt.Errorf("breach: read the file: %w", err)
		}
		if known || c.cfg.URL == "" {
			return known, nil
		}
	}
	if c.cfg.URL != "" {
		known, err := c.ask(ctx, strings.ToUpper(hex.EncodeToString(sum[:])))
		if known || err != nil || c.fault == nil {
			return known, err
		}
	}
	return false, fmt.Errorf("breach: file: %w", c.fault)
}

// ask asks the service.
func (c *Checker) ask(ctx context.Context, digits string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.URL+digits[:prefixLength], nil)
	if err != nil {
		return false, errors.New("breach: the address is invalid")
	}
	req.Header.Set("Add-Padding", "true") // so that the length of the answer tells nothing
	req.Header.Set("User-Agent", "gatehouse")
	res, err := c.client.Do(req)
	if err != nil {
		if inner := new(url.Error); errors.As(err, &inner) {
			err = inner.Err // without the address, which ends with digits of the hash
		}
		return false, fmt.Errorf("breach: ask the service: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("breach: the service answers %d", res.StatusCode)
	}
	body, err := outbound.Body(res)
	if err != nil {
		return false, fmt.Errorf("breach: read the answer: %w", err)
	}
	return find(string(body), digits[prefixLength:])
}

// find looks a hash up in an answer: lines of the other 35 digits, a colon and a count. A count of zero is padding.
func find(body, rest string) (known bool, err error) {
	lines := 0
	for line := range strings.Lines(body) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		digits, count, ok := strings.Cut(line, ":")
		if !ok || len(digits) != 2*sha1.Size-prefixLength || !isHex(digits) || !isNumber(count) {
			return false, errors.New("breach: the answer is not a list of hashes")
		}
		lines++
		if strings.EqualFold(digits, rest) && strings.Trim(count, "0") != "" {
			known = true
		}
	}
	if lines == 0 {
		return false, errors.New("breach: the answer is empty")
	}
	return known, nil
}

func isHex(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') })
}

func isNumber(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}
