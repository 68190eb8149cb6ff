package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// The rows of the storage in a database.
const (
	rowSelect     = "PostgreSQL, SELECT by its key, 16 connections"
	rowPlain16    = "plain Caddy, respond, 16 connections"
	rowInsert     = "PostgreSQL, INSERT, 64 connections"
	rowPgRead     = "introspection, client token, on PostgreSQL, 16 connections"
	rowPgIssue    = "client_credentials, on PostgreSQL, 64 connections"
	rowPgFlow     = "code flow, new sign-in, RS256, on PostgreSQL"
	rowBadgerFlow = "code flow, new sign-in, RS256, on Badger"
	rowOneNode    = "introspection and client_credentials, one node"
	rowTwoNodes   = "introspection and client_credentials, two nodes"
)

// databaseRows is the number of records in the table that SELECT reads.
const databaseRows = 100_000

// postgres compares a server on PostgreSQL with statements by pgx, sent to the same PostgreSQL from as many
// connections, and with itself on Badger.
func (b *bench) postgres() error {
	db, err := lab.NewPostgres()
	if err != nil {
		return err
	}
	defer db.Remove()
	address := fmt.Sprintf("postgres://gatehouse@127.0.0.1:%d/gatehouse?sslmode=disable", db.Port)
	if _, err := db.Query("CREATE TABLE raw (k bytea PRIMARY KEY, v bytea NOT NULL); INSERT INTO raw " +
		fmt.Sprintf("SELECT sha256(n::text::bytea), sha256(n::text::bytea) || sha256(n::text::bytea) FROM generate_series(1, %d) n; ",
			databaseRows) + "ANALYZE raw"); err != nil {
		return err
	}
	var nodes [2]*bench
	for i := range nodes {
		if nodes[i], err = b.node(address, nodes[0]); err != nil {
			return err
		}
		defer nodes[i].server.Kill()
	}
	one, two := nodes[0], nodes[1]
	samples := map[string][]sample{}
	add := func(name string, s sample, err error) error {
		samples[name] = append(samples[name], s)
		return firstOf(err, b.ctx.Err())
	}
	warmUp := func() error { // the people are new once
		for _, p := range []party{one.ours("flow-rs256"), b.ours("flow-rs256")} {
			if _, _, err := signIns(p, os.Getpid(), 0, *people, anybody); err != nil {
				return err
			}
		}
		return nil
	}
	if err := warmUp(); err != nil {
		return err
	}
	var trips [2][]float64 // of a token that is read, and of a code flow
	var retries, commits float64
	for range *rounds {
		s, err := statements(b.ctx, address, 16, "SELECT v FROM raw WHERE k = sha256($1)",
			func(n int) []byte { return fmt.Append(nil, n%databaseRows+1) })
		if err := add(rowSelect, s, err); err != nil {
			return err
		}
		plain := b.plain(2)
		plain.conns = 16
		s, err = load(plain, length(), 0)
		if err := add(rowPlain16, s, err); err != nil {
			return err
		}
		before, asked := one.metric("round_trips"), one.asked()
		done := one.profileOf(rowPgRead, length())
		s, err = load(one.introspect("client", 16), length(), 0)
		done()
		if err := add(rowPgRead, s, err); err != nil {
			return err
		}
		trips[0] = append(trips[0], (one.metric("round_trips")-before)/(one.asked()-asked))
		s, err = statements(b.ctx, address, 64, "INSERT INTO raw (k, v) VALUES (sha256($1), sha256($1) || sha256($1) || sha256($1))",
			func(int) []byte { return []byte(rand.Text()) })
		if err := add(rowInsert, s, err); err != nil {
			return err
		}
		done = one.profileOf(rowPgIssue, length())
		s, err = load(one.issue(lab.MachineID), length(), 0)
		done()
		if err := add(rowPgIssue, s, err); err != nil {
			return err
		}
		before = one.metric("round_trips")
		done = one.profileOf(rowPgFlow, length())
		s, _, err = signIns(one.ours("flow-rs256"), one.server.PID(), length(), 0, anybody)
		done()
		if err := add(rowPgFlow, s, err); err != nil {
			return err
		}
		trips[1] = append(trips[1], (one.metric("round_trips")-before)/float64(max(s.requests, 1)))
		s, _, err = signIns(b.ours("flow-rs256"), b.server.PID(), length(), 0, anybody)
		if err := add(rowBadgerFlow, s, err); err != nil {
			return err
		}
		s, err = together(one.introspect("client", 32), one.issue(lab.MachineID))
		if err := add(rowOneNode, s, err); err != nil {
			return err
		}
		r, u := one.metric("retries")+two.metric("retries"), one.metric("commits")+two.metric("commits")
		first, second := one.issue(lab.MachineID), two.issue(lab.MachineID)
		first.conns, second.conns = 32, 32
		s, err = together(one.introspect("client", 16), two.introspect("client", 16), first, second)
		if err := add(rowTwoNodes, s, err); err != nil {
			return err
		}
		retries, commits = retries+one.metric("retries")+two.metric("retries")-r, commits+one.metric("commits")+two.metric("commits")-u
	}
	rate := map[string]float64{}
	for _, name := range []string{rowSelect, rowPlain16, rowPgRead, rowInsert, rowPgIssue, rowPgFlow, rowBadgerFlow, rowOneNode, rowTwoNodes} {
		f := mediansOf(samples[name])
		b.row(name, f)
		rate[name] = f.rate
	}
	b.note("round trips to PostgreSQL for each code flow", "%.1f", median(trips[1]))
	b.atLeast("on PostgreSQL: introspection / SELECT by its key", rate[rowPgRead]/rate[rowSelect], 0.6)
	// What the one above can reach at most: a server that only answers as respond does, and reads one record.
	b.atLeast("plain Caddy's respond and one SELECT, one after the other / SELECT", rate[rowPlain16]/(rate[rowPlain16]+rate[rowSelect]), 0.6)
	b.atLeast("on PostgreSQL: client_credentials / INSERT", rate[rowPgIssue]/rate[rowInsert], 0.35)
	b.atLeast("on PostgreSQL: code flow / on Badger", rate[rowPgFlow]/rate[rowBadgerFlow], 0.3)
	b.atLeast("on PostgreSQL: two nodes on this machine / one", rate[rowTwoNodes]/rate[rowOneNode], 1.3)
	b.atMost("on PostgreSQL: round trips to read a token", median(trips[0]), 1.05)
	b.atMost("on PostgreSQL: transactions of two nodes that ran again, in %", 100*retries/max(retries+commits, 1), 5)
	return nil
}

// node starts another server like ours, on a database. With a first node it is one of the same installation.
func (b *bench) node(database string, first *bench) (*bench, error) {
	dir, err := os.MkdirTemp(b.dir, "node-")
	if err != nil {
		return nil, err
	}
	n := &bench{ctx: b.ctx, dir: b.dir, self: b.self, gateway: b.gateway, guides: b.guides}
	if n.server, err = b.server.Clone(dir, filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	c := &n.server.Config
	c.Storage = fmt.Sprintf("storage postgres %q", database)
	for _, port := range []int{b.grpc, b.elsewhere} { // each server listens on ports of its own
		others, err := lab.FreePorts(1)
		if err != nil {
			return nil, err
		}
		mine := strings.NewReplacer(fmt.Sprint(":", port), fmt.Sprint(":", others[0]))
		c.Gatehouse, c.Sites = mine.Replace(c.Gatehouse), mine.Replace(c.Sites)
	}
	if err := n.server.WriteConfig(); err != nil {
		return nil, err
	}
	if _, err := n.server.StartReady(b.ctx); err != nil {
		return nil, err
	}
	if first != nil {
		n.tokens = first.tokens
		return n, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope}}
	a := n.server.Post(b.ctx, "/oauth/token", lab.MachineID, n.server.Machine, form)
	if a.Status != http.StatusOK {
		return nil, fmt.Errorf("a server on PostgreSQL gives no token: %d %s", a.Status, a.Body)
	}
	n.tokens = map[string]string{"client": a.Text("access_token")}
	return n, nil
}

func (b *bench) metric(name string) float64 {
	return b.server.Metric(b.ctx, "gatehouse_storage_"+name+"_total")
}

// asked returns the number of tokens that were looked up.
func (b *bench) asked() float64 { return b.server.Metric(b.ctx, "gatehouse_introspections_total") }

// statements runs a statement again and again, on as many connections, and measures this process as its server.
func statements(ctx context.Context, address string, conns int, sql string, parameter func(n int) []byte) (sample, error) {
	var mu sync.Mutex // guards took and failed
	var took []time.Duration
	var failed error
	var ready, wg sync.WaitGroup
	ready.Add(conns)
	begun := make(chan time.Time)
	for i := range conns {
		wg.Go(func() {
			c, err := pgx.Connect(ctx, address)
			if err == nil {
				defer c.Close(ctx)
				_, err = c.Exec(ctx, sql, parameter(i)) // it is prepared
			}
			ready.Done()
			at := <-begun
			var own []time.Duration
			for n := i; err == nil && time.Since(at) < length(); n += conns {
				start := time.Now()
				_, err = c.Exec(ctx, sql, parameter(n))
				own = append(own, time.Since(start))
			}
			mu.Lock()
			defer mu.Unlock()
			took, failed = append(took, own...), errors.Join(failed, err)
		})
	}
	ready.Wait()
	m, err := begin(os.Getpid())
	for range conns {
		begun <- m.at
	}
	wg.Wait()
	if err := firstOf(err, failed); err != nil {
		return sample{}, err
	}
	s, err := m.end(took)
	s.own = 0 // it is the server's
	return s, err
}

// together loads several targets at the same time and adds up what they answer.
func together(targets ...target) (all sample, err error) {
	list, errs := make([]sample, len(targets)), make([]error, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() { list[i], errs[i] = load(t, length(), 0) })
	}
	wg.Wait()
	for i, s := range list {
		all.requests += s.requests
		all.elapsed, all.p50, all.p99 = max(all.elapsed, s.elapsed), max(all.p50, s.p50), max(all.p99, s.p99)
		all.own = max(all.own, s.own)
		if i == 0 || targets[i].pid != targets[i-1].pid {
			all.cpu += s.cpu
		}
	}
	return all, errors.Join(errs...)
}
