package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	// maxAnswer is the largest answer to one question in bytes.
	maxAnswer = 4 << 20
	// goodbye is the time that the end of a connection waits for its own goroutines.
	goodbye = time.Second
)

// errTooLarge says that a server has sent more than maxAnswer.
var errTooLarge = errors.New("the directory answers with more than 4 MiB")

// errSeveral says that a search for one entry has found more.
var errSeveral = errors.New("the search finds several entries where it must find one: make match narrower")

// failure is a server that cannot be used now, so another one may be tried.
type failure struct{ cause error }

func (f *failure) Error() string { return f.cause.Error() }

func (f *failure) Unwrap() error { return f.cause }

// bounded reads no more than what is left, and is closed at most once.
type bounded struct {
	net.Conn

	left atomic.Int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left.Load() <= 0 {
		return 0, errTooLarge
	}
	n, err := b.Conn.Read(p)
	b.left.Add(-int64(n))
	return n, err
}

// conn is one connection, used by one sign-in at a time.
type conn struct {
	ldap   *ldapv3.Conn
	raw    *bounded
	server *server
	as     string // the DN that it is bound as. Empty: none that is known
	idle   time.Time
	used   bool // before this sign-in
	dirty  bool // nothing more can be asked
}

func (c *conn) close() {
	c.raw.Close() //nolint:errcheck // nothing follows
	c.ldap.SetTimeout(goodbye)
	c.ldap.Close() //nolint:errcheck // nothing follows
}

// dial connects to a server and encrypts the connection.
func (p *pool) dial(ctx context.Context, s *server) (*conn, error) {
	plain, err := p.dialer(ctx, "tcp", s.address)
	if err != nil {
		return nil, &failure{fmt.Errorf("%s: no connection: %w", s.url, err)}
	}
	c := &conn{raw: &bounded{Conn: plain}, server: s}
	c.raw.left.Store(maxAnswer)
	secure := &tls.Config{ServerName: s.host, RootCAs: p.ca, MinVersion: tls.VersionTLS12}
	if s.tls {
		inner := tls.Client(c.raw, secure)
		if err := inner.HandshakeContext(ctx); err != nil {
			plain.Close() //nolint:errcheck // nothing follows
			return nil, &failure{fmt.Errorf("%s: no TLS: %w", s.url, err)}
		}
		c.ldap = ldapv3.NewConn(inner, true)
		c.ldap.Start()
		return c, nil
	}
	c.ldap = ldapv3.NewConn(c.raw, false)
	c.ldap.Start()
	if s.startTLS {
		if err := c.during(ctx, func() error { return c.ldap.StartTLS(secure) }); err != nil {
			c.close()
			return nil, &failure{fmt.Errorf("%s: the server does not encrypt the connection (StartTLS): %w", s.url, words(err))}
		}
	}
	return c, nil
}

// during runs one exchange, and cuts the connection when ctx ends.
func (c *conn) during(ctx context.Context, ask func() error) error {
	c.raw.left.Store(maxAnswer)
	stop := context.AfterFunc(ctx, func() { c.raw.Close() }) //nolint:errcheck // what is read next says so
	err := ask()
	if !stop() {
		c.dirty = true
		return fmt.Errorf("%s does not answer in time: %w", c.server.url, context.Cause(ctx))
	}
	if c.raw.left.Load() <= 0 {
		c.dirty = true
		return errTooLarge
	}
	return err
}

// bind authenticates as a DN. What the server answers is returned as it is.
func (c *conn) bind(ctx context.Context, name, password string) (*ldapv3.SimpleBindResult, error) {
	c.as = ""
	var res *ldapv3.SimpleBindResult
	err := c.during(ctx, func() (err error) {
		req := ldapv3.NewSimpleBindRequest(name, password, []ldapv3.Control{ldapv3.NewControlBeheraPasswordPolicy()})
		res, err = c.ldap.SimpleBind(req)
		return err
	})
	if err == nil {
		c.as = name
	}
	return res, c.judge(err)
}

// question is one search.
type question struct {
	base, filter string
	entry        bool // the entry of base alone
	attributes   []string
	most         int // entries
	cookie       []byte
	page         uint32 // entries of a page. 0: all at once
}

// search returns at most most entries. The cookie is that of the next page; empty: no page follows. Referrals are not
// followed.
func (c *conn) search(ctx context.Context, q question) (found []*ldapv3.Entry, cookie []byte, err error) {
	req := &ldapv3.SearchRequest{
		BaseDN: q.base, Scope: ldapv3.ScopeWholeSubtree, DerefAliases: ldapv3.NeverDerefAliases, Filter: q.filter, Attributes: q.attributes,
		SizeLimit: q.most + 1, TimeLimit: int(defaultTimeout / time.Second),
	}
	if q.entry {
		req.Scope = ldapv3.ScopeBaseObject
	}
	if q.page > 0 {
		paging := ldapv3.NewControlPaging(q.page)
		paging.SetCookie(q.cookie)
		req.Controls, req.SizeLimit = []ldapv3.Control{paging}, 0
	}
	err = c.during(ctx, func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		answer := c.ldap.SearchAsync(ctx, req, 4)
		for answer.Next() {
			if e := answer.Entry(); e != nil {
				if found = append(found, e); len(found) > q.most {
					c.dirty = true // more follows, which no one reads
					return errSeveral
				}
			}
			if paging, ok := ldapv3.FindControl(answer.Controls(), ldapv3.ControlTypePaging).(*ldapv3.ControlPaging); ok {
				cookie = paging.Cookie
			}
		}
		return answer.Err()
	})
	if ldapv3.IsErrorWithCode(err, ldapv3.LDAPResultSizeLimitExceeded) && len(found) > 1 {
		err = errSeveral
	}
	return found, cookie, c.judge(err)
}

// judge tells failures of the server from its answers.
func (c *conn) judge(err error) error {
	var answer *ldapv3.Error
	switch {
	case err == nil, errors.Is(err, errSeveral):
		return err
	case !errors.As(err, &answer) || answer.ResultCode >= ldapv3.ErrorNetwork:
		c.dirty = true
		return &failure{fmt.Errorf("%s: %w", c.server.url, words(err))}
	case answer.ResultCode == ldapv3.LDAPResultBusy, answer.ResultCode == ldapv3.LDAPResultUnavailable,
		answer.ResultCode == ldapv3.LDAPResultServerDown:
		c.dirty = true
		return &failure{fmt.Errorf("%s: %w", c.server.url, words(err))}
	}
	return err
}

// words says what a server has answered, without what it wrote itself.
func words(err error) error {
	var answer *ldapv3.Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.ResultCode {
	case ldapv3.LDAPResultReferral:
		return errors.New("the directory refers to another server, which is not followed: name that server in url")
	case ldapv3.LDAPResultSizeLimitExceeded:
		return errors.New("the directory ends the search at its size limit: make base or match narrower, or raise the limit")
	case ldapv3.LDAPResultTimeLimitExceeded:
		return errors.New("the directory ends the search at its time limit: make base or match narrower, or add an index")
	case ldapv3.LDAPResultConfidentialityRequired, ldapv3.LDAPResultStrongAuthRequired:
		return errors.New("the directory wants an encrypted connection: use ldaps, or starttls")
	case ldapv3.ErrorNetwork:
		return errors.New("the connection has ended: " + idp.Printable(answer.Err.Error()))
	}
	return fmt.Errorf("the directory answers %q (%d)", ldapv3.LDAPResultCodeMap[answer.ResultCode], answer.ResultCode)
}
