package ldap_test

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/ldap"
	"github.com/gatehouse-id/gatehouse/idp/ldap/ldaptest"
)

// notPassed wants an error that says what happened, and that means "we cannot tell".
func notPassed(t *testing.T, p *ldap.Provider, want string) {
	t.Helper()
	id, _, err := signIn(t.Context(), p, "alice", "alice password")
	if id != nil || err == nil || errors.Is(err, idp.ErrCredentials) || errors.As(err, new(*idp.Rejection)) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%+v, %v, want an error with %q", id, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "password\"") {
		t.Errorf("the error shows what is secret: %v", err)
	}
}

// TestDirectoriesThatFail lets no one in, and says why.
func TestDirectoriesThatFail(t *testing.T) {
	t.Parallel()
	code := func(n int64) func(string, string) int64 { return func(string, string) int64 { return n } }
	for name, c := range map[string]struct {
		server ldaptest.Config
		change func(*ldap.Config, *ldaptest.Server)
		want   string
	}{
		"attack 127: a referral to another server": {ldaptest.Config{Entries: entries(), Search: code(10)}, nil, "not followed"},
		"attack 127: StartTLS is refused": {
			ldaptest.Config{Entries: entries()},
			func(c *ldap.Config, _ *ldaptest.Server) { c.StartTLS = true }, "does not encrypt",
		},
		"attack 127: a certificate of its own": {ldaptest.Config{Entries: entries(), TLS: true}, nil, "no TLS"},
		"attack 127: a certificate of its own, by StartTLS": {
			ldaptest.Config{Entries: entries(), StartTLS: true},
			func(c *ldap.Config, _ *ldaptest.Server) {
				c.StartTLS = true
			}, "does not encrypt",
		},
		"attack 127: a certificate for another name": {ldaptest.Config{Entries: entries(), TLS: true}, func(c *ldap.Config, s *ldaptest.Server) {
			_, port, _ := net.SplitHostPort(s.Address)
			c.URLs, c.CA = []string{"ldaps://127.0.0.2:" + port}, s.Pool()
		}, ""},
		"attack 127: a hundred thousand entries": {ldaptest.Config{Entries: entries(), Copies: 100_000}, nil, "several entries"},
		"a size limit":                           {ldaptest.Config{Entries: entries(), Search: code(4)}, nil, "size limit"},
		"a time limit":                           {ldaptest.Config{Entries: entries(), Search: code(3)}, nil, "time limit"},
		"a server that is busy":                  {ldaptest.Config{Entries: entries(), Search: code(51)}, nil, "Busy"},
		"a base that does not exist":             {ldaptest.Config{Entries: entries(), Search: code(32)}, nil, "No Such Object"},
		"two people of one name": {ldaptest.Config{Entries: append(entries(), ldaptest.Entry{
			DN: "uid=alice,ou=more," + ldaptest.People, Password: "alice password", Attributes: map[string][]string{"uid": {"alice"}},
		})}, nil, "several entries"},
		"no identifier": {ldaptest.Config{Entries: []ldaptest.Entry{{
			DN: "uid=alice," + ldaptest.People, Password: "alice password",
			Attributes: map[string][]string{"uid": {"alice"}},
		}}}, nil, "set identify_by"},
		"an account that cannot sign in": {ldaptest.Config{Entries: entries(), Bind: func(dn, _ string) *ldaptest.Answer {
			return &ldaptest.Answer{Code: 49, Message: dn, Policy: -1}
		}}, nil, "the account of bind cannot sign in"},
		"an attribute in parts": {ldaptest.Config{Entries: []ldaptest.Entry{{
			DN: "uid=alice," + ldaptest.People, Password: "alice password",
			Attributes: map[string][]string{
				"uid": {"alice"}, "entryUUID": {"1"}, "memberOf;range=0-1499": {"cn=a"},
			},
		}}}, nil, "in parts"},
		"garbage":                   {ldaptest.Config{Garbage: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")}, nil, ""},
		"a packet that claims 2 GB": {ldaptest.Config{Garbage: []byte{0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 0x02, 0x01, 0x01}}, nil, ""},
		"an answer to another question": {ldaptest.Config{Garbage: []byte{
			0x30, 0x0c, 0x02, 0x01, 0x63, 0x61, 0x07, 0x0a, 0x01, 0x00,
			0x04, 0x00, 0x04, 0x00,
		}}, nil, ""},
		"a bind without a result": {ldaptest.Config{Garbage: []byte{0x30, 0x05, 0x02, 0x01, 0x01, 0x61, 0x00}}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ldaptest.Start(t, c.server)
			cfg := searching(s.URL)
			cfg.Timeout = 2 * time.Second
			if c.change != nil {
				c.change(&cfg, s)
			}
			notPassed(t, open(t, cfg), c.want)
		})
	}
}

// TestEncryption: people sign in by LDAPS and by StartTLS, by the authorities that the operator names.
func TestEncryption(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ldaptest.Config{
		"LDAPS":    {Entries: entries(), TLS: true},
		"StartTLS": {Entries: entries(), StartTLS: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ldaptest.Start(t, cfg)
			c := searching(s.URL)
			c.StartTLS, c.CA = true, s.Pool()
			p := open(t, c)
			if id, _, err := signIn(t.Context(), p, "alice", "alice password"); err != nil || id.Username != "alice" {
				t.Errorf("%+v, %v", id, err)
			}
			steps := p.Check(t.Context())
			if len(steps) != 4 || steps[1].Name != "certificate of "+s.URL || steps[1].Result == idp.StepFailed || steps[2].Result != idp.StepOK ||
				steps[3].Result != idp.StepFailed {
				t.Errorf("Check() = %+v, want encryption, the end of the certificate, the account, and that the base has no entry", steps)
			}
		})
	}
	t.Run("a server elsewhere is never spoken to in the clear", func(t *testing.T) {
		t.Parallel()
		s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
		e := env()
		e.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, s.Address)
		}
		p, err := ldap.New(searching("ldap://ldap.example.com"), e)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		notPassed(t, p, "StartTLS")
		if binds := s.Binds(); len(binds) != 0 {
			t.Errorf("it has got %q", binds)
		}
	})
}

// TestFailover: people sign in as long as one of several servers works.
func TestFailover(t *testing.T) {
	t.Parallel()
	gone := ldaptest.Start(t, ldaptest.Config{})
	gone.Stop()
	silent := ldaptest.Start(t, ldaptest.Config{Silent: true})
	busy := ldaptest.Start(t, ldaptest.Config{Entries: entries(), Search: func(string, string) int64 { return 52 }})
	good := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	for name, first := range map[string]*ldaptest.Server{"gone": gone, "silent": silent, "busy": busy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, searching(first.URL, good.URL))
			for range 3 {
				if id, found, err := signIn(t.Context(), p, "alice", "alice password"); err != nil || id.Username != "alice" || len(found) != 1 {
					t.Fatalf("%+v, counted %q, %v", id, found, err)
				}
			}
			if made, _, _ := first.Connections(); made > 1 {
				t.Errorf("the server that fails was tried %d times, want once", made)
			}
		})
	}
}

// TestRestedServerIsTriedOnce: of many who sign in at once, one tries a server again that has failed, and the
// connections to the others stay.
func TestRestedServerIsTriedOnce(t *testing.T) {
	t.Parallel()
	gone := ldaptest.Start(t, ldaptest.Config{})
	gone.Stop()
	good := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	cfg := searching(gone.URL, good.URL)
	cfg.Pool = 4
	var tries, later atomic.Int64
	e, began := env(), time.Now()
	e.Now = func() time.Time { return began.Add(time.Duration(later.Load())) }
	e.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasSuffix(gone.URL, address) {
			tries.Add(1)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	p, err := ldap.New(cfg, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	crowd := func() {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				if _, _, err := signIn(t.Context(), p, "alice", "alice password"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	crowd() // all at once find out that the first is gone
	made, _, _ := good.Connections()
	for range 3 {
		later.Add(int64(16 * time.Second))
		tries.Store(0)
		crowd()
		if n := tries.Load(); n != 1 {
			t.Errorf("%d of 32 tried the server that fails, want 1", n)
		}
		now, _, _ := good.Connections()
		if now > made+1 {
			t.Errorf("%d connections to the server that works were made anew, want 1 at most", now-made)
		}
		made = now
	}
}

// TestSilentDirectory: people wait for a directory for as long as it may take and no longer, a browser that hangs up is
// gone at once, and nothing is left over.
func TestSilentDirectory(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Silent: true})
	cfg := searching(s.URL)
	cfg.Timeout, cfg.Pool = 300*time.Millisecond, 1
	p := open(t, cfg)
	for range 2 {
		_, _, err := signIn(t.Context(), p, "alice", "alice password")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded", err)
		}
	}
	cfg.Timeout = 5 * time.Second
	p = open(t, cfg)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the browser has gone"))
	if _, _, err := signIn(ctx, p, "alice", "alice password"); err == nil {
		t.Error("want an error")
	}
	// One takes the only connection, the other hears that it is busy.
	done := make(chan error, 1)
	began := make(chan struct{})
	var dials atomic.Int64
	e := env()
	e.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			close(began)
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	one, err := ldap.New(cfg, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close() })
	first, hangUp := context.WithCancel(t.Context())
	go func() {
		_, _, err := signIn(first, one, "alice", "alice password")
		done <- err
	}()
	<-began
	short, cancelShort := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelShort()
	if _, _, err := signIn(short, one, "bob", "bob password"); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("%v, want that all connections are busy", err)
	}
	hangUp()
	if err := <-done; err == nil {
		t.Error("want an error")
	}
}

// frozenConn is a connection whose other end is gone without a word, as a firewall leaves it that forgets connections:
// what is written is lost, and nothing comes.
type frozenConn struct {
	net.Conn

	frozen *atomic.Bool
}

func (c frozenConn) Write(b []byte) (int, error) {
	if c.frozen.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestHalfOpenConnections: a connection that was kept and has no one at its other end any more costs time, and no
// sign-in; where that is so of all connections, the person hears so in time.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	cfg := searching(s.URL)
	cfg.Timeout = 2 * time.Second
	var kept, all atomic.Bool
	e := env()
	e.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if kept.Load() {
			return frozenConn{c, &all}, nil
		}
		return frozenConn{c, &kept}, nil
	}
	p, err := ldap.New(cfg, e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	for range 2 {
		if id, _, err := signIn(t.Context(), p, "alice", "alice password"); err != nil || id.Username != "alice" {
			t.Fatalf("%+v, %v", id, err)
		}
		kept.Store(true)
	}
	if made, _, _ := s.Connections(); made != 2 {
		t.Errorf("%d connections were made, want a second one in place of the first", made)
	}
	all.Store(true)
	began := time.Now()
	notPassed(t, p, "does not answer in time")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the person has waited for %v", took)
	}
	if _, _, err := signIn(t.Context(), p, "alice", "alice password"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
}

// TestWrongPasswordIsSentOnce: a directory counts wrong passwords and locks accounts, so a connection that breaks must
// not make one of them two.
func TestWrongPasswordIsSentOnce(t *testing.T) {
	t.Parallel()
	var s atomic.Pointer[ldaptest.Server]
	dropping := ldaptest.Start(t, ldaptest.Config{Entries: entries(), Bind: func(dn, _ string) *ldaptest.Answer {
		if dn != ldaptest.Reader && s.Load() != nil {
			s.Load().Drop()
		}
		return nil
	}})
	s.Store(dropping)
	other := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	p := open(t, searching(dropping.URL, other.URL))
	if _, _, err := signIn(t.Context(), p, "alice", "wrong"); err == nil {
		t.Error("want an error")
	}
	sent := 0
	for _, b := range append(dropping.Binds(), other.Binds()...) {
		if b.DN != ldaptest.Reader {
			sent++
		}
	}
	if sent != 1 {
		t.Errorf("the password was sent %d times, want once", sent)
	}
}

// TestFoundEndsTheSignIn: who must wait has no password tried.
func TestFoundEndsTheSignIn(t *testing.T) {
	t.Parallel()
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	wait := errors.New("wait")
	for _, cfg := range []ldap.Config{searching(s.URL), {URLs: []string{s.URL}, Template: "uid=%s," + ldaptest.People}} {
		for _, name := range []string{"alice", "nobody"} {
			_, err := open(t, cfg).SignIn(t.Context(),
				idp.Credentials{Username: name, Password: "alice password", Found: func(string) error { return wait }})
			if !errors.Is(err, wait) {
				t.Errorf("%s: %v, want what Found returned", name, err)
			}
		}
	}
	for _, b := range s.Binds() {
		if b.DN != ldaptest.Reader {
			t.Errorf("%s was tried", b.DN)
		}
	}
}

var signIns = flag.Int("sign-ins", 300, "how many sign-ins share the connections")

// TestManySignIns: 64 sign-ins at a time share the connections of the pool, and leave no descriptor behind.
func TestManySignIns(t *testing.T) {
	s := ldaptest.Start(t, ldaptest.Config{Entries: entries()})
	manySignIns(t, searching(s.URL), func() int {
		made, _, _ := s.Connections()
		return made
	})
}

// manySignIns signs alice and bob in by a directory that tells how many connections were made, and returns how long it
// took.
func manySignIns(t *testing.T, cfg ldap.Config, made func() int) time.Duration {
	t.Helper()
	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := descriptors()
	cfg.Pool = 8
	p, err := ldap.New(cfg, env())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var begun atomic.Int64
	began := time.Now()
	for range 64 {
		all.Go(func() {
			for n := begun.Add(1); n <= int64(*signIns); n = begun.Add(1) {
				who := []string{"alice", "bob"}[n%2]
				if id, _, err := signIn(context.Background(), p, who, who+" password"); err != nil || id.Username != who {
					t.Errorf("%s: %+v, %v", who, id, err)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if n := made(); n > cfg.Pool+1 { // one that breaks is replaced
		t.Errorf("%d connections were made, want %d", n, cfg.Pool)
	}
	p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for descriptors() > before && ctx.Err() == nil { // a stand-in closes its ends
		runtime.Gosched()
	}
	if n := descriptors(); n > before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
	return took
}

// TestNothingIsLeftOver counts goroutines after servers that hang up in every way.
func TestNothingIsLeftOver(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, c := range []ldaptest.Config{
		{Silent: true},
		{Garbage: []byte("x")},
		{Entries: entries(), Copies: 1000},
		{Entries: entries()},
		{TLS: true},
	} {
		s := ldaptest.Start(t, c)
		cfg := searching(s.URL)
		cfg.Timeout = 200 * time.Millisecond
		p, err := ldap.New(cfg, env())
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			signIn(t.Context(), p, "alice", "alice password")
		}
		p.Close()
		s.Stop()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for runtime.NumGoroutine() > before+1 && ctx.Err() == nil {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
