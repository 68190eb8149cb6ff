package caddymodule

import (
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

var (
	checkOnOff       = caddyfileutil.OneOf("on", "off")
	checkUsernames   = caddyfileutil.OneOf("email")
	checkUsageLimit  = caddyfileutil.Between(0, 1_000_000_000)
	checkFailures    = caddyfileutil.Between(1, 1000)
	checkPerPerson   = caddyfileutil.Between(1, 1000)
	checkIterations  = caddyfileutil.Between(1, 20)
	checkConcurrency = caddyfileutil.Between(1, 1024)
)

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

// checkHashMemory accepts the memory of one password hash: enough to be safe, and not more than a request may cost.
func checkHashMemory(s string) error {
	n, err := parseSize(s)
	if err == nil && (n < 8<<20 || n > 256<<20) {
		err = fmt.Errorf("%s is not between 8MiB and 256MiB", s)
	}
	return err
}

func checkKey(s string) error {
	_, err := shared.ParseKey(s)
	return err
}

// checkLocale accepts a language that Gatehouse has messages for. A language of custom messages need not be listed.
func checkLocale(s string) error {
	if err := web.CheckLocale(s); err != nil {
		return fmt.Errorf("%s %w", s, err)
	}
	if base, _, _ := strings.Cut(strings.ReplaceAll(s, "_", "-"), "-"); !slices.Contains(web.Languages(), strings.ToLower(base)) {
		return fmt.Errorf("there are no messages for %s, but for: %s", s, strings.Join(web.Languages(), ", "))
	}
	return nil
}

func checkPartition(s string) error { return authn.CheckPartition(s) }

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
	if !web.IsLink(s) {
		return fmt.Errorf("%q is not an http, https or mailto URL", s)
	}
	return nil
}

// checkOpened accepts a network that is written with its first address.
func checkOpened(s string) error {
	p, err := caddyfileutil.ParseNetwork(s)
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
