package pgstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	form = "postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full" //nolint:gosec // no password
	// connectTime is the time limit for a connection where the URL does not say connect_timeout.
	connectTime = 5 * time.Second
)

// Place says where the database is, without user and password. It is an error if the URL cannot be read.
func (o Options) Place() (string, error) {
	config, err := parseURL(o.URL)
	if err != nil {
		return "", err
	}
	place := "postgres " + strings.Join(hosts(config), ",") + "/" + config.Database
	if o.Schema != "" {
		place += " schema " + o.Schema
	}
	return place, nil
}

// parseURL reads the URL of a database. Its errors say nothing of what the URL holds.
func parseURL(text string) (*pgconn.Config, error) {
	if text == "" {
		return nil, errors.New("there is no URL: give it as " + form)
	}
	config, err := pgconn.ParseConfig(text)
	if scheme, _, ok := strings.Cut(text, "://"); !ok || scheme != "postgres" &&
		scheme != "postgresql" { // it would be read as a list of name=value
		config, err = nil, errors.New("it begins with neither postgres:// nor postgresql://")
	} else if err == nil && strings.Contains(config.Database, "@") { // after a / of the password
		err = errors.New("the database is not a name")
	}
	if err == nil && !saysMode(text) {
		err = verifyHosts(config)
	}
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read%s: it must be of the form %s, with special characters of the password as %%40 for @",
			reason(text, err), form)
	}
	if !strings.Contains(text, "connect_timeout") {
		config.ConnectTimeout = connectTime
	}
	if len(hosts(config)) > 1 && config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "gatehouse"
	}
	return config, nil
}

// saysMode reports whether a URL says how much TLS there must be.
func saysMode(text string) bool {
	text, _, _ = strings.Cut(text, "#")
	_, query, _ := strings.Cut(text, "?")
	q, err := url.ParseQuery(query)
	modes := q["sslmode"]
	return err == nil && (len(modes) > 0 && !slices.Contains(modes, "") || len(modes) == 0 && q.Get("ssl") == "true")
}

// LacksMode reports whether a URL leads to another machine and does not say how much TLS there must be. The
// database has to prove its name then, as with sslmode=verify-full.
func (o Options) LacksMode() bool {
	for _, text := range [...]string{o.URL, o.DirectURL} {
		config, err := parseURL(text)
		if err == nil && !saysMode(text) && slices.ContainsFunc(append(config.Fallbacks, &pgconn.FallbackConfig{Host: config.Host}), remote) {
			return true
		}
	}
	return false
}

// FallsBack reports whether a URL leads to another machine and goes on without TLS where that speaks none, as
// sslmode=prefer and allow do. Someone in between decides then.
func (o Options) FallsBack() bool {
	for _, text := range [...]string{o.URL, o.DirectURL} {
		config, err := parseURL(text)
		if err != nil {
			continue
		}
		all := slices.DeleteFunc(append(config.Fallbacks, &pgconn.FallbackConfig{Host: config.Host, TLSConfig: config.TLSConfig}),
			func(f *pgconn.FallbackConfig) bool { return !remote(f) })
		plain := func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil }
		if slices.ContainsFunc(all, plain) && slices.ContainsFunc(all, func(f *pgconn.FallbackConfig) bool { return !plain(f) }) {
			return true
		}
	}
	return false
}

// TrustsAnyone reports whether a URL leads to another machine that need not prove who it is, as with sslmode=require:
// TLS keeps out those who only listen.
func (o Options) TrustsAnyone() bool {
	for _, text := range [...]string{o.URL, o.DirectURL} {
		config, err := parseURL(text)
		if err != nil {
			continue
		}
		for _, f := range append(config.Fallbacks, &pgconn.FallbackConfig{Host: config.Host, TLSConfig: config.TLSConfig}) {
			if t := f.TLSConfig; remote(f) && t != nil && t.InsecureSkipVerify && t.VerifyPeerCertificate == nil && t.VerifyConnection == nil {
				return true
			}
		}
	}
	return false
}

func remote(f *pgconn.FallbackConfig) bool { return !local(f.Host) }

// local reports whether a host is this machine, so no one else can read what is sent.
func local(host string) bool {
	if strings.HasPrefix(host, "/") || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// verifyHosts makes a configuration that verify-full would make, unless each host is this machine. Without a mode
// pgconn would talk to anybody who answers, and in clear text if they do not speak TLS.
func verifyHosts(config *pgconn.Config) error {
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	if !slices.ContainsFunc(all, remote) {
		return nil
	}
	all = slices.DeleteFunc(all, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil && !strings.HasPrefix(f.Host, "/") })
	if !slices.ContainsFunc(all, remote) { // PGSSLMODE or a service file say disable
		return errors.New("it has no sslmode, and only the URL can say that there is no TLS: add sslmode=disable to it")
	}
	for _, f := range all {
		if f.TLSConfig != nil {
			f.TLSConfig.InsecureSkipVerify, f.TLSConfig.VerifyPeerCertificate, f.TLSConfig.ServerName = false, nil, f.Host
		}
	}
	config.Host, config.Port, config.TLSConfig, config.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
	return nil
}

// reason returns what is wrong with a URL whose user and host were understood. Otherwise a part of the password may
// have been taken for something else.
func reason(text string, err error) string {
	u, parseErr := url.Parse(text)
	if parseErr != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" {
		return ""
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Sprintf(" (%v)", path)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		err = e
	}
	why := err.Error()
	if password, ok := u.User.Password(); ok && password != "" && strings.Contains(why, password) || strings.Contains(why, "://") {
		return ""
	}
	return " (" + why + ")"
}

// hosts returns the names of the hosts of a URL.
func hosts(config *pgconn.Config) []string {
	var list []string
	add := func(host string, port uint16) {
		name := net.JoinHostPort(host, fmt.Sprint(port))
		for _, known := range list {
			if known == name {
				return
			}
		}
		list = append(list, name)
	}
	add(config.Host, config.Port)
	for _, f := range config.Fallbacks {
		add(f.Host, f.Port)
	}
	return list
}

// fault is an error of which the operator must do something.
type fault struct {
	why  error // nil: the text says it all
	text string
}

func (f *fault) Error() string { return f.text }

func (f *fault) Unwrap() error { return f.why }

// connectError returns in words why there is no connection, and what to do about it.
func connectError(err error) error {
	text := ""
	var e *pgconn.PgError
	var parts *pgconn.ParseConfigError
	var dns *net.DNSError
	var op *net.OpError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &e):
		text = serverSays(e)
	case errors.As(err, &parts):
		text = "the URL cannot be used: it must be of the form " + form
	case errors.As(err, &unknown):
		text = "the certificate of the database is of an authority that is not trusted: name it with sslrootcert=FILE in the URL"
	case errors.As(err, &name):
		text = "the certificate of the database is for another name than the host of the URL: name the host as its certificate does"
	case errors.As(err, &cert):
		text = "the certificate of the database is not valid: " + cert.Err.Error()
	case strings.Contains(err.Error(), "server refused TLS connection"):
		text = "the database does not speak TLS: switch it on there (ssl = on), or, if no one else can read what is sent, write sslmode=disable into the URL"
	case strings.Contains(err.Error(), "read only connection"), strings.Contains(err.Error(), "read-only"):
		text = "no host of the URL takes writes: each is a standby or read-only. Name the primary too, or promote one"
	case errors.As(err, &dns):
		text = fmt.Sprintf("the host %s of the URL is not known: check its name", dns.Name)
	case errors.As(err, &op):
		text = fmt.Sprintf("the database does not answer at %s (%v): is it running, and does it listen there?", op.Addr, op.Err)
	default:
		text = "the database does not answer: is it running, and does it listen where the URL says?"
	}
	return &fault{unavailable("the database cannot be reached"), text}
}

// serverSays returns what a refusal of the server means.
func serverSays(e *pgconn.PgError) string {
	switch e.Code {
	case "28P01":
		return "the database refuses user or password: check them in the URL"
	case "28000":
		return "the database lets this user in from here in no way: add a line to its pg_hba.conf (" + e.Message + ")"
	case "3D000":
		return "there is no such database: make it with `createdb --encoding=UTF8 --template=template0 --owner=USER NAME`"
	case "42501":
		return "this user may not connect to the database: GRANT CONNECT ON DATABASE … TO …"
	case "42704":
		return "the URL has an option that the database does not know (" + e.Message + "): check how it is written"
	case "53300":
		return "the database has no connection left: raise max_connections, or make `pool` smaller"
	case "57P03":
		return "the database is starting or stopping (" + e.Message + ")"
	case "08P01":
		return "the pooler or database refuses an option of the URL (" + e.Message + ")"
	}
	return fmt.Sprintf("the database refuses the connection (SQLSTATE %s: %s)", e.Code, e.Message)
}
