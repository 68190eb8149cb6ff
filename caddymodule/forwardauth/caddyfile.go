package forwardauth

import (
	"fmt"
	"regexp"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// Subdirectives are the words of the global block that are about other proxies:
//
//	forward_auth <name> { ... }
//	forward_auth_any on|off
//	forward_auth_from <network>...
//	forward_auth_secret <secret>
func Subdirectives(into **Gates) caddyfileutil.Subdirectives {
	made := func() *Gates {
		if *into == nil {
			*into = new(Gates)
		}
		return *into
	}
	return caddyfileutil.Subdirectives{
		"forward_auth":     func(d *caddyfile.Dispenser) error { return made().readGate(d) },
		"forward_auth_any": func(d *caddyfile.Dispenser) error { return caddyfileutil.Value(&made().Any, checkSwitch)(d) },
		"forward_auth_from": func(d *caddyfile.Dispenser) error {
			return caddyfileutil.Values(&made().From, caddyfileutil.CheckTrusted)(d)
		},
		"forward_auth_secret": func(d *caddyfile.Dispenser) error {
			return caddyfileutil.Value(&made().Secret, caddyfileutil.CheckSecret)(d)
		},
	}
}

var gateName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkName(s string) error {
	if !gateName.MatchString(s) {
		return fmt.Errorf("%q is not the name of a gate: letters, digits and . _ -", s)
	}
	return nil
}

// readGate reads
//
//	forward_auth <name> {
//		origins <origin>...
//		login
//		client_certificate_header <name>
//		<options of protect>
//	}
func (g *Gates) readGate(d *caddyfile.Dispenser) error {
	var name string
	if err := caddyfileutil.ReadName(d, &name, checkName); err != nil {
		return err
	}
	if g.Named[name] != nil {
		return d.Errf("forward_auth %s is already defined: keep one of them", name)
	}
	start, gate := d.Token(), new(Gate)
	known := gate.Subdirectives()
	known["origins"] = caddyfileutil.Values(&gate.Origins, caddyfileutil.CheckIssuer)
	known["login"] = caddyfileutil.Flag(&gate.Login)
	known["client_certificate_header"] = caddyfileutil.Value(&gate.CertificateHeader, checkCertificateHeader)
	delete(known, "replay")
	delete(known, "request_access")
	delete(known, "mcp")
	delete(known, "upstream_token")
	if err := caddyfileutil.ReadBlock(d, "forward_auth "+name, &reference.ForwardAuth, known); err != nil {
		return err
	}
	if gate.Login && len(gate.Origins) == 0 {
		return caddyfileutil.At(start, fmt.Errorf("forward_auth %s: %w", name, errNoOrigin))
	}
	if g.Named == nil {
		g.Named = map[string]*Gate{}
	}
	g.Named[name] = gate
	return nil
}
