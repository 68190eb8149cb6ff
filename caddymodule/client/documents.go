package client

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	authzclient "github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// Documents say which clients are known by their metadata documents, without being registered.
type Documents struct {
	// on or off. Default: on if a site of the configuration has mcp.
	Switch string `json:"switch,omitempty"`
	// Hosts of documents, and *.example.com for those below, of which people are not told that no one has verified
	// them. Default: none.
	Trust []string `json:"trust,omitempty"`
	// The largest document that is read. Default: 64KiB.
	MaxSize string `json:"max_size,omitempty"`
	// How long a host has to answer. Default: 5s.
	Timeout caddyfileutil.Duration `json:"timeout,omitempty"`
	// The shortest time after which a document is fetched again. Default: 1h.
	CacheMin caddyfileutil.Duration `json:"cache_min,omitempty"`
	// The longest. Default: 24h.
	CacheMax caddyfileutil.Duration `json:"cache_max,omitempty"`
	// How many documents are remembered. Default: 1000.
	Clients caddyfileutil.Count `json:"clients,omitempty"`
	// Private schemes of redirect URIs, besides those that are a domain name turned round. Default: cursor.
	Schemes []string `json:"schemes,omitempty"`
}

var (
	checkSwitch  = caddyfileutil.OneOf("on", "off")
	checkClients = caddyfileutil.Between(1, 100_000)
)

// ReadDocuments reads
//
//	client_metadata_documents [on|off] {
//		trust    <host>...
//		max_size <size>
//		timeout  <duration>
//		cache    <shortest> <longest>
//		clients  <number>
//		schemes  <scheme>...
//	}
func ReadDocuments(d *caddyfile.Dispenser) (*Documents, error) {
	o, word := new(Documents), d.Val()
	if d.NextArg() {
		o.Switch = d.Val()
		if err := caddyfileutil.Check(d, word, o.Switch, checkSwitch); err != nil {
			return nil, err
		}
	}
	if d.NextArg() {
		return nil, d.Errf("%s: unexpected argument %q", word, d.Val())
	}
	return o, caddyfileutil.ReadBlock(d, word, &reference.Documents, caddyfileutil.Subdirectives{
		"trust":    caddyfileutil.Values(&o.Trust, checkTrusted),
		"max_size": caddyfileutil.Value(&o.MaxSize, checkDocumentSize),
		"timeout":  caddyfileutil.Value(&o.Timeout, checkDocumentTimeout),
		"cache":    o.readCache,
		"clients":  caddyfileutil.Value(&o.Clients, checkClients),
		"schemes":  caddyfileutil.Values(&o.Schemes, authzclient.CheckScheme),
	})
}

func (o *Documents) readCache(d *caddyfile.Dispenser) error {
	args, err := caddyfileutil.ReadPair(d, "want the shortest and the longest time, as in: cache 1h 24h")
	if err != nil {
		return err
	}
	for _, arg := range args {
		if err := caddyfileutil.Check(d, "cache", arg, caddyfileutil.CheckDuration); err != nil {
			return err
		}
	}
	o.CacheMin, o.CacheMax = caddyfileutil.Duration(args[0]), caddyfileutil.Duration(args[1])
	return nil
}

// Build returns the configuration.
func (o *Documents) Build(r *caddyfileutil.Resolver) cimd.Config {
	of := func(name string) string { return "client_metadata_documents: " + name }
	cfg := cimd.Config{
		On:       r.Plain("client_metadata_documents", o.Switch, checkSwitch) == "on",
		Trust:    r.List(of("trust"), o.Trust, checkTrusted),
		Timeout:  r.Duration(of("timeout"), o.Timeout),
		Shortest: r.Duration(of("cache"), o.CacheMin), Longest: r.Duration(of("cache"), o.CacheMax),
		Clients: r.Count(of("clients"), o.Clients, checkClients),
		Schemes: r.List(of("schemes"), o.Schemes, authzclient.CheckScheme),
	}
	if s, ok := r.Text(of("max_size"), o.MaxSize, checkDocumentSize); ok {
		n, _ := humanize.ParseBytes(s)
		cfg.MaxSize = int64(n) //nolint:gosec // checked
	}
	if cfg.Longest > 0 && cfg.Longest < cfg.Shortest {
		r.Fail("client_metadata_documents: cache: %s is longer than %s: write the shortest time first", cfg.Shortest, cfg.Longest)
	}
	return cfg
}

func checkTrusted(s string) error {
	host := strings.TrimPrefix(s, "*.")
	if host == "" || strings.ContainsAny(host, "*/@#?:[] ") || strings.ToLower(host) != host || !strings.Contains(host, ".") {
		return fmt.Errorf("%q is not a host such as claude.ai or *.example.com", s)
	}
	return nil
}

// checkDocumentSize accepts what real documents need, and what many of them may cost.
func checkDocumentSize(s string) error {
	n, err := humanize.ParseBytes(s)
	if err != nil {
		return fmt.Errorf("%q is not a size: write it like 64KiB", s)
	}
	if n < 5<<10 || n > 1<<20 {
		return fmt.Errorf("%s is not between 5KiB and 1MiB", s)
	}
	return nil
}

func checkDocumentTimeout(s string) error {
	if err := caddyfileutil.CheckDuration(s); err != nil {
		return err
	}
	if t, err := time.ParseDuration(s); err != nil || t > 5*time.Second {
		return errors.New("a person waits for the document: at most 5s")
	}
	return nil
}
