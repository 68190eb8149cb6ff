// Package postgres is the Caddy module gatehouse.storage.postgres, which configures storage/pgstore.
package postgres

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
)

func init() {
	caddy.RegisterModule(Storage{})
}

// Storage keeps the records in a PostgreSQL database. A write is durable once it has returned.
type Storage struct {
	// Where the database is: postgres://user:password@host:5432/database?sslmode=verify-full. Several hosts are separated
	// by commas; the one that takes writes is used. Without sslmode it is verify-full, unless each host is this machine.
	// A placeholder such as {env.DATABASE_URL} keeps the password out of the configuration.
	URL string `json:"url,omitempty"`
	// The URL of the same database without the pooler that the URL leads to, on which this server hears what others
	// write. Default: the URL.
	DirectURL string `json:"direct_url,omitempty"`
	// The schema of the tables. Default: the first of the user's search path.
	Schema string `json:"schema,omitempty"`
	// The name that the database was made with. A database of another name is refused. Default: gatehouse.
	Cluster string `json:"cluster,omitempty"`
	// How many connections read at the same time; one more writes. Default: 16.
	Pool string `json:"pool,omitempty"`
	// What a write waits for: on, the disk and each standby that the server names as synchronous; local, the disk of
	// the server alone. Default: on.
	Durability string `json:"durability,omitempty"`

	opt   pgstore.Options
	place string
}

// CaddyModule implements caddy.Module.
func (Storage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.storage.postgres", New: func() caddy.Module { return new(Storage) }}
}

const name = "storage postgres"

// UnmarshalCaddyfile reads
//
//	storage postgres <url> {
//		direct_url <url>
//		schema     <name>
//		cluster    <name>
//		pool       <number>
//		durability on|local
//	}
func (s *Storage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return d.Errf("%s: the URL of the database is missing: add for example `%s {env.DATABASE_URL}`", name, name)
	}
	s.URL = d.Val()
	if d.NextArg() {
		return d.Errf("%s: there is more after the URL: other options belong in a block", name) // it may be a part of the password
	}
	if err := caddyfileutil.Check(d, name, s.URL, checkURL); err != nil {
		return err
	}
	return caddyfileutil.ReadBlock(d, name, &reference.Postgres, caddyfileutil.Subdirectives{
		"direct_url": caddyfileutil.Value(&s.DirectURL, checkURL),
		"schema":     caddyfileutil.Value(&s.Schema, checkName), "cluster": caddyfileutil.Value(&s.Cluster, checkName),
		"pool": caddyfileutil.Value(&s.Pool, checkPool), "durability": caddyfileutil.Value(&s.Durability, checkDurability),
	})
}

func checkURL(v string) error {
	_, err := pgstore.Options{URL: v}.Place()
	return err
}

// maxName is the number of bytes that a database keeps of a name.
const maxName = 63

func checkName(v string) error {
	if v == "" || len(v) > maxName {
		return fmt.Errorf("%q is empty or longer than %d bytes", v, maxName)
	}
	return nil
}

// maxPool is more than a server has connections for one user.
const maxPool = 1000

func checkPool(v string) error {
	if n, err := strconv.Atoi(v); err != nil || n < 2 || n > maxPool {
		return fmt.Errorf("%q is not a number from 2 to %d", v, maxPool)
	}
	return nil
}

func checkDurability(v string) error {
	if v != "on" && v != "local" {
		return fmt.Errorf("%q: use on or local", v)
	}
	return nil
}

// Provision resolves the options; it opens nothing.
func (s *Storage) Provision(caddy.Context) error {
	r := caddyfileutil.NewResolver(caddy.NewReplacer())
	s.opt = pgstore.Options{
		URL: r.Plain("url", s.URL, checkURL), Schema: r.Plain("schema", s.Schema, checkName), Cluster: r.Plain("cluster", s.Cluster, checkName),
		Durability: r.Plain("durability", s.Durability, checkDurability), DirectURL: r.Plain("direct_url", s.DirectURL, checkURL),
	}
	if v, ok := r.Text("pool", s.Pool, checkPool); ok {
		s.opt.Pool, _ = strconv.Atoi(v)
	}
	if s.URL == "" {
		r.Fail("url: it is missing: write for example {env.DATABASE_URL}")
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	place, err := s.opt.Place()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.place = place
	return nil
}

// Place returns the location of the database, without user and password.
func (s *Storage) Place() string { return s.place }

// Advice says what the configuration leaves open, and what to write. Empty: nothing.
func (s *Storage) Advice() (reason, fix string) {
	switch {
	case s.opt.FallsBack():
		return name + ": the URL goes on without TLS where the database speaks none, so someone in between can read and change everything",
			"write sslmode=verify-full into the URL, or sslmode=disable if no one else can read what is sent"
	case s.opt.TrustsAnyone():
		return name + ": the URL takes any certificate for that of the database, so someone in between can read and change everything",
			"write sslmode=verify-full into the URL, with sslrootcert=FILE for an authority of your own"
	case !s.opt.LacksMode():
		return "", ""
	}
	return name + ": the URL does not say how the database proves that it is the right one, so it must have a certificate of its host's name",
		"write sslmode=verify-full into the URL, with sslrootcert=FILE for an authority of your own, or sslmode=disable if no one else can read what is sent"
}

// seed makes the mark of a URL mean nothing outside of this process.
var seed = maphash.MakeSeed()

// Options are the options besides the place. A URL with another password has another mark.
func (s *Storage) Options() string {
	return fmt.Sprintf("pool %d, durability %q, cluster %q, url %x, direct_url %x", s.opt.Pool, s.opt.Durability, s.opt.Cluster,
		maphash.String(seed, s.opt.URL), maphash.String(seed, s.opt.DirectURL))
}

// Open opens the store. The caller closes it.
func (s *Storage) Open(ctx context.Context, log *zap.Logger) (storage.Store, error) {
	o := s.opt
	o.Log = log
	return pgstore.Open(ctx, o)
}

// Restore fills an empty database from a backup.
func (s *Storage) Restore(ctx context.Context, r io.Reader, after func(storage.Tx) error) error {
	return pgstore.Restore(ctx, s.opt, r, after)
}

// AcceptLoss lets the servers of a database go on that lacks what was answered.
func (s *Storage) AcceptLoss(ctx context.Context, after func(storage.Tx) error) (what string, err error) {
	return pgstore.AcceptLoss(ctx, s.opt, after)
}

var (
	_ caddy.Provisioner     = (*Storage)(nil)
	_ caddyfile.Unmarshaler = (*Storage)(nil)
)
