package caddymodule

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/internal/loopback"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// The checks of single values are the same whether a value comes from a Caddyfile, from JSON or out of a placeholder. Each says what is wrong and what to do;
// none repeats a secret. What a client as a whole must be is authz.Client.Validate.

const minSecret = 32 // characters of a client secret

var errNotSupported = errors.New("is not supported yet")

// parseIssuer returns the issuer as it appears in every token and page: no trailing slash, lower-case host, no default port.
func parseIssuer(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, errors.New("want an absolute URL such as https://auth.example.com")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("scheme %s is not https", u.Scheme)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(s, "#"):
		return nil, errors.New("want scheme and host only, without user, query or fragment")
	case u.Path != "" && u.Path != "/":
		return nil, fmt.Errorf("a path (%s) is not supported: cookies and discovery need a host of their own, such as https://auth.example.com", u.Path)
	case u.Scheme == "http" && !loopback.Is(u.Hostname()):
		return nil, errors.New("http is for loopback hosts only (localhost, 127.0.0.1, [::1]): use https")
	case strings.HasSuffix(u.Hostname(), "."):
		return nil, errors.New("leave the dot at the end of the host away")
	}
	for _, c := range u.Host {
		if c >= utf8.RuneSelf {
			return nil, errors.New("write the host in its ASCII form (xn--...)")
		}
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); port == "" || (u.Scheme == "https" && port == "443") || (u.Scheme == "http" && port == "80") {
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":"+port), ":")
	}
	return &url.URL{Scheme: u.Scheme, Host: host}, nil
}

func checkIssuer(s string) error {
	_, err := parseIssuer(s)
	return err
}

func checkDuration(s string) error {
	d, err := caddy.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration: write it like 30s, 15m, 12h or 30d", s)
	}
	if d <= 0 {
		return fmt.Errorf("%q must be longer than nothing", s)
	}
	return nil
}

func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

func between(low, high int) func(string) error {
	return func(s string) error {
		n, err := parseCount(s)
		if err == nil && (n < low || n > high) {
			err = fmt.Errorf("%d is not between %d and %d", n, low, high)
		}
		return err
	}
}

// parseSize reads a number of bytes such as 128MiB.
func parseSize(s string) (uint64, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: write it like 128MiB", s)
	}
	return n, nil
}

func checkSize(s string) error {
	_, err := parseSize(s)
	return err
}

// checkHashMemory holds the memory of one password hash between what is safe and what a request may cost.
func checkHashMemory(s string) error {
	n, err := parseSize(s)
	if err == nil && (n < 8<<20 || n > 256<<20) {
		err = fmt.Errorf("%s is not between 8MiB and 256MiB", s)
	}
	return err
}

// checkSecret demands length only, since the secret must be random: `caddy gatehouse secret` prints one.
func checkSecret(s string) error {
	if n := utf8.RuneCountInString(s); n < minSecret {
		return fmt.Errorf("has %d characters, want at least %d: `caddy gatehouse secret` prints a good one", n, minSecret)
	}
	return nil
}

func checkPHC(s string) error {
	if secret.CheckPHC(s) != nil {
		return errors.New("want an Argon2id or bcrypt PHC string of usual cost, such as one that begins with $argon2id$v=19$m=19456,t=2,p=1$")
	}
	return nil
}

func parseKey(s string) ([]byte, error) {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if key, err := enc.DecodeString(s); err == nil {
			if len(key) != secret.KeySize {
				return nil, fmt.Errorf("has %d bytes, want %d: `openssl rand -base64 32` makes one", len(key), secret.KeySize)
			}
			return key, nil
		}
	}
	return nil, fmt.Errorf("want %d bytes in base64: `openssl rand -base64 32` makes one", secret.KeySize)
}

func checkKey(s string) error {
	_, err := parseKey(s)
	return err
}

// checkScope is the scope-token of RFC 6749 3.3.
func checkScope(s string) error {
	for i := range len(s) {
		if c := s[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return fmt.Errorf("%q is not a scope (RFC 6749 3.3): printable ASCII without spaces, quotes and backslashes", s)
		}
	}
	return nil
}

// checkURI demands an absolute URI without fragment (RFC 6749 3.1.2); what else a redirect URI must be is authz's to say.
func checkURI(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || (u.Host == "" && u.Path == "" && u.Opaque == "") {
		return fmt.Errorf("%q is not an absolute URI", s)
	}
	if strings.Contains(s, "#") {
		return fmt.Errorf("%q has a fragment", s)
	}
	return nil
}

func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || strings.TrimPrefix(s, u.Scheme+"://"+u.Host) != "" {
		return fmt.Errorf("%q is not an origin such as https://app.example.com", s)
	}
	return nil
}

// oneOf accepts the words that work, and knows those that will.
func oneOf(works []string, later ...string) func(string) error {
	return func(s string) error {
		switch {
		case slices.Contains(works, s):
			return nil
		case slices.Contains(later, s):
			return fmt.Errorf("%s %w", s, errNotSupported)
		default:
			return fmt.Errorf("%q is not known, want one of: %s", s, strings.Join(works, ", "))
		}
	}
}

var (
	checkGrant       = oneOf([]string{"authorization_code", "refresh_token", "client_credentials", "implicit", "password", "validate_bearer"})
	checkAuthMethod  = oneOf([]string{"basic", "post", "private_key_jwt"})
	checkConsent     = oneOf([]string{"on", "off", "always"})
	checkOnOff       = oneOf([]string{"on", "off"})
	checkAlg         = oneOf([]string{"RS256", "ES256", "EdDSA"})
	checkTokenFormat = oneOf([]string{"opaque", "jwt"})
	checkSubjectType = oneOf([]string{"public", "pairwise"})
	checkAPI         = oneOf([]string{"introspection", "configuration", "credentials", "events", "persons"})
	checkLevel       = between(1, 4)
	checkMaxSessions = between(1, 10_000)
	checkUsageLimit  = between(0, 1_000_000_000)
)

// checkLocale demands a language that has messages of ours; one that only custom messages have needs no mention.
func checkLocale(s string) error {
	if err := page.CheckLocale(s); err != nil {
		return fmt.Errorf("%s %w", s, err)
	}
	if base, _, _ := strings.Cut(strings.ReplaceAll(s, "_", "-"), "-"); !slices.Contains(page.Languages(), strings.ToLower(base)) {
		return fmt.Errorf("there are no messages for %s, but for: %s", s, strings.Join(page.Languages(), ", "))
	}
	return nil
}

func checkPartition(s string) error { return identity.CheckPartition(s) }

func checkEmail(s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s {
		return errors.New("want an e-mail address such as demo@example.com")
	}
	return nil
}

// checkPassword counts characters, as the password policy does.
func checkPassword(s string) error {
	if n := utf8.RuneCountInString(s); n < 8 || n > 256 {
		return fmt.Errorf("has %d characters, want 8 to 256", n)
	}
	return nil
}

var colorSyntax = regexp.MustCompile(`^#?[0-9A-Fa-f]{6}$`)

func checkColor(s string) error {
	if !colorSyntax.MatchString(s) {
		return fmt.Errorf("%q is not a colour such as 2457d6", s)
	}
	return nil
}

func checkHelp(s string) error {
	if !page.IsLink(s) {
		return fmt.Errorf("%q is not an http, https or mailto URL", s)
	}
	return nil
}

var (
	checkFailures    = between(1, 1000)
	checkIterations  = between(1, 20)
	checkConcurrency = between(1, 1024)
)

// checkOpened accepts a network that is written by its first address.
func checkOpened(s string) error {
	p, err := parseNetwork(s)
	switch {
	case err != nil:
		return err
	case p.Addr().Is4In6():
		return fmt.Errorf("%q is an IPv4 network in IPv6 form: write it as IPv4", s)
	case p.Masked() != p:
		return fmt.Errorf("%q is not the start of its network: write %s", s, p.Masked())
	}
	return nil
}
