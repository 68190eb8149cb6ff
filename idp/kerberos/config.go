package kerberos

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/keytab"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	service "github.com/gatehouse-id/gatehouse/internal/keytab"
)

const highest = 4 // authentication level

// Config is the operator's configuration.
type Config struct {
	// Keytab is the content of the file with the keys of the service. Required.
	Keytab []byte
	// Service is the principal that browsers ask a ticket for, without the realm. Default: HTTP/ and the issuer's host
	Service string
	// Realms are those whose people sign in. Default: the realms of the keys
	Realms []string
	// Networks are the networks from which people sign in. Empty: from anywhere.
	Networks []netip.Prefix
	// Auto sends browsers in these networks here without a choice.
	Auto bool
	// WithoutPAC takes tickets without a PAC, as MIT Kerberos before 1.20 makes them. Never for Active Directory.
	WithoutPAC bool
	// Level is the authentication level of a sign-in. Default: 1
	Level int
	// Mapping makes details of principal (ann@EXAMPLE.COM), name (ann) and realm.
	Mapping idp.Mapping
}

// DefaultKeytab is the file that Kerberos keeps the keys of this machine's services in: KRB5_KTNAME, or
// /etc/krb5.keytab. (krb5.conf(5), default_keytab_name)
func DefaultKeytab() string {
	if file := strings.TrimPrefix(os.Getenv("KRB5_KTNAME"), "FILE:"); file != "" {
		return file
	}
	return "/etc/krb5.keytab"
}

// Validate says what is wrong with the configuration. It reads nothing.
func (c *Config) Validate() error {
	if _, err := c.keys(); err != nil {
		return err
	}
	if c.Service != "" && (strings.Count(c.Service, "/") != 1 || strings.Contains(c.Service, "@")) {
		return coded.Errorf("principal", "value", "service %q: want a principal without a realm, such as HTTP/auth.example.com", c.Service)
	}
	if c.Level < 0 || c.Level > highest {
		return coded.Errorf("level", "", "level %d is not between 1 and %d", c.Level, highest)
	}
	for _, r := range c.Realms {
		if r == "" || !idp.IsText(r, 256) || strings.ContainsAny(r, "/@ ") {
			return coded.Errorf("realm", "value", "realm %q: want a name such as EXAMPLE.COM", r)
		}
	}
	return c.Mapping.Validate()
}

// CheckKeytab says what is wrong with the bytes of the keytab.
func (c *Config) CheckKeytab() error {
	_, err := c.keys()
	return err
}

func (c *Config) keys() (kt *keytab.Keytab, err error) {
	defer func() { // of bytes that are no keytab
		if recover() != nil {
			kt, err = nil, fmt.Errorf("keytab: %w", service.ErrFormat)
		}
	}()
	if len(c.Keytab) == 0 {
		return nil, coded.New("required", "keytab is missing: name the file with the keys of the service")
	}
	kt = keytab.New()
	if kt.Unmarshal(c.Keytab) != nil { // its error repeats bytes of the file
		return nil, fmt.Errorf("keytab: %w", service.ErrFormat)
	}
	if len(kt.Entries) == 0 {
		return nil, coded.New("keytab_empty", "keytab: it has no keys")
	}
	return kt, nil
}

// realmsOf are the realms of the keys of a service.
func realmsOf(kt *keytab.Keytab, service []string) (out []string) {
	for _, e := range kt.Entries {
		if slices.Equal(e.Principal.Components, service) && !slices.Contains(out, e.Principal.Realm) {
			out = append(out, e.Principal.Realm)
		}
	}
	return out
}
