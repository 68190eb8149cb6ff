// Package ldaptest is a directory that a test controls: it answers like OpenLDAP or Active Directory, or as badly as
// the test wants.
package ldaptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	ber "github.com/go-asn1-ber/asn1-ber"
	ldapv3 "github.com/go-ldap/ldap/v3"
)

// The account that searches, and where people are.
const (
	Base     = "dc=example,dc=com"
	People   = "ou=people," + Base
	Reader   = "cn=reader," + Base
	ReaderPW = "reader password"
)

// Entry is an entry of the directory.
type Entry struct {
	DN         string
	Password   string // empty: no one binds as it
	Attributes map[string][]string
}

// Answer is the answer to a bind.
type Answer struct {
	Code    int64
	Message string
	Policy  int64 // error of the password policy control. Negative: no control
}

// Config says how the directory behaves.
type Config struct {
	Entries []Entry
	// TLS speaks TLS at once, StartTLS when it is asked to. Neither: it refuses.
	TLS, StartTLS bool
	// Bind replaces the answers to binds. It can be called at any time. nil, or an answer with a negative code: those of
	// the entries.
	Bind func(dn, password string) *Answer
	// Search replaces the result code of searches. Negative: that of the entries
	Search func(base, filter string) int64
	// Copies is the number of times that a matching entry is sent, with another DN each. Default: 1
	Copies int
	// Refer adds references to a server elsewhere to each search.
	Refer string
	// Silent reads and says nothing. Garbage is sent instead of answers.
	Silent  bool
	Garbage []byte
}

// Bind is a bind that was asked for.
type Bind struct{ DN, Password string }

// Server is a running directory.
type Server struct {
	// URL has the scheme that Config asks for. Address is its host and port.
	URL, Address string
	// CA is the certificate that the server's own comes from, in PEM.
	CA []byte

	cfg    Config
	ln     net.Listener
	secure *tls.Config

	mu       sync.Mutex // guards all below
	conns    map[net.Conn]bool
	made     int // connections, all of them
	most     int // at once
	binds    []Bind
	searches []string // base, space, filter
	ended    bool
	running  sync.WaitGroup
}

// Start starts a directory, until the test ends.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: cfg, ln: ln, Address: ln.Addr().String(), conns: map[net.Conn]bool{}}
	s.secure, s.CA = certificate(t)
	s.URL = "ldap://" + s.Address
	if cfg.TLS {
		s.URL = "ldaps://" + s.Address
	}
	s.running.Go(s.accept)
	t.Cleanup(s.Stop)
	return s
}

// Pool returns the authorities that trust the server.
func (s *Server) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA)
	return pool
}

// Stop closes the directory and its connections. It can be called twice.
func (s *Server) Stop() {
	s.mu.Lock()
	s.ended = true
	s.ln.Close()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Drop closes the connections that are open.
func (s *Server) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Binds returns the binds that were asked for.
func (s *Server) Binds() []Bind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.binds)
}

// Searches returns the bases and filters of the searches that were asked for.
func (s *Server) Searches() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.searches)
}

// Connections returns how many connections were made, how many were open at once at most, and how many are open.
func (s *Server) Connections() (made, most, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made, s.most, len(s.conns)
}

func (s *Server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.ended {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.conns[c] = true
		s.made++
		s.most = max(s.most, len(s.conns))
		s.running.Go(func() {
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			c.Close()
		})
		s.mu.Unlock()
	}
}

// serve answers one connection.
func (s *Server) serve(raw net.Conn) {
	var c io.ReadWriter = raw
	if s.cfg.Silent {
		_, _ = io.Copy(io.Discard, raw)
		return
	}
	if s.cfg.TLS {
		c = tls.Server(raw, s.secure)
	}
	as := ""
	for {
		request, err := ber.ReadPacket(c)
		if err != nil || len(request.Children) < 2 {
			return
		}
		if s.cfg.Garbage != nil {
			_, _ = c.Write(s.cfg.Garbage)
			return
		}
		id, _ := request.Children[0].Value.(int64)
		op := request.Children[1]
		switch op.Tag {
		case ldapv3.ApplicationBindRequest:
			var answer Answer
			answer, as = s.bind(op)
			err = write(c, id, ldapv3.ApplicationBindResponse, answer)
		case ldapv3.ApplicationSearchRequest:
			err = s.search(c, id, as, request)
		case ldapv3.ApplicationExtendedRequest:
			if !s.cfg.StartTLS {
				err = write(c, id, ldapv3.ApplicationExtendedResponse, Answer{Code: ldapv3.LDAPResultUnwillingToPerform, Policy: -1})
				break
			}
			err = write(c, id, ldapv3.ApplicationExtendedResponse, Answer{Policy: -1})
			c = tls.Server(raw, s.secure)
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *Server) bind(op *ber.Packet) (Answer, string) {
	dn, password := text(op.Children[1]), text(op.Children[2])
	s.mu.Lock()
	s.binds = append(s.binds, Bind{dn, password})
	s.mu.Unlock()
	if s.cfg.Bind != nil {
		if a := s.cfg.Bind(dn, password); a != nil && a.Code >= 0 {
			if a.Code == 0 {
				return *a, dn
			}
			return *a, ""
		}
	}
	if password == "" { // RFC 4513 5.1.2: everybody is let in, as no one
		return Answer{Policy: -1}, ""
	}
	if dn == Reader && password == ReaderPW {
		return Answer{Policy: -1}, dn
	}
	for _, e := range s.cfg.Entries {
		if same(e.DN, dn) && e.Password != "" && e.Password == password {
			return Answer{Policy: -1}, e.DN
		}
	}
	return Answer{Code: ldapv3.LDAPResultInvalidCredentials, Policy: -1}, ""
}

// search sends the entries that fit, to who has authenticated.
func (s *Server) search(c io.Writer, id int64, as string, request *ber.Packet) error {
	op := request.Children[1]
	base, scope, filter := text(op.Children[0]), op.Children[1].Value.(int64), op.Children[6]
	shown, err := ldapv3.DecompileFilter(filter)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.searches = append(s.searches, base+" "+shown)
	s.mu.Unlock()
	if as == "" {
		return write(c, id, ldapv3.ApplicationSearchResultDone, Answer{Code: ldapv3.LDAPResultInsufficientAccessRights, Policy: -1})
	}
	if s.cfg.Search != nil {
		if code := s.cfg.Search(base, shown); code >= 0 {
			return write(c, id, ldapv3.ApplicationSearchResultDone, Answer{Code: code, Policy: -1})
		}
	}
	limit, _ := op.Children[3].Value.(int64)
	page, skip := paging(request)
	sent, cookie := int64(0), 0
	for _, e := range s.cfg.Entries {
		below := same(e.DN, base) || scope == ldapv3.ScopeWholeSubtree && strings.HasSuffix(strings.ToLower(e.DN), ","+strings.ToLower(base))
		if !below || !e.fits(filter) {
			continue
		}
		for i := range max(s.cfg.Copies, 1) {
			if skip > 0 {
				skip--
				continue
			}
			if page > 0 && sent == page {
				cookie = pageOf(request) + int(sent)
				break
			}
			if limit > 0 && sent == limit && s.cfg.Copies == 0 {
				return write(c, id, ldapv3.ApplicationSearchResultDone, Answer{Code: ldapv3.LDAPResultSizeLimitExceeded, Policy: -1})
			}
			sent++
			if err := writeEntry(c, id, e, i); err != nil {
				return err
			}
		}
	}
	if s.cfg.Refer != "" {
		ref := message(id)
		list := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldapv3.ApplicationSearchResultReference, nil, "")
		list.AppendChild(str(s.cfg.Refer))
		ref.AppendChild(list)
		if _, err := c.Write(ref.Bytes()); err != nil {
			return err
		}
	}
	done := message(id)
	done.AppendChild(result(ldapv3.ApplicationSearchResultDone, Answer{}))
	if page > 0 {
		p := ldapv3.NewControlPaging(0)
		if cookie > 0 {
			p.SetCookie(big.NewInt(int64(cookie)).Bytes())
		}
		done.AppendChild(controls(p.Encode()))
	}
	_, err = c.Write(done.Bytes())
	return err
}

// paging returns the size of a page, and how many entries come before it. (RFC 2696)
func paging(request *ber.Packet) (size int64, skip int) {
	if len(request.Children) < 3 {
		return 0, 0
	}
	for _, child := range request.Children[2].Children {
		if c, err := ldapv3.DecodeControl(child); err == nil {
			if p, ok := c.(*ldapv3.ControlPaging); ok {
				return int64(p.PagingSize), int(new(big.Int).SetBytes(p.Cookie).Int64())
			}
		}
	}
	return 0, 0
}

func pageOf(request *ber.Packet) int {
	_, skip := paging(request)
	return skip
}

// fits reports whether a filter matches an entry: and, or, not, equality and presence.
func (e *Entry) fits(f *ber.Packet) bool {
	switch f.Tag {
	case ldapv3.FilterAnd:
		return !slices.ContainsFunc(f.Children, func(c *ber.Packet) bool { return !e.fits(c) })
	case ldapv3.FilterOr:
		return slices.ContainsFunc(f.Children, e.fits)
	case ldapv3.FilterNot:
		return !e.fits(f.Children[0])
	case ldapv3.FilterEqualityMatch:
		want := text(f.Children[1])
		return slices.ContainsFunc(e.values(text(f.Children[0])), func(v string) bool {
			return v == want || utf8.ValidString(v) && strings.EqualFold(v, want)
		})
	case ldapv3.FilterPresent:
		name := f.Data.String()
		return strings.EqualFold(name, "objectClass") || len(e.values(name)) > 0
	}
	return true // every other filter: a test that meets one learns too much, and fails
}

func (e *Entry) values(name string) []string {
	for have, values := range e.Attributes {
		if strings.EqualFold(have, name) {
			return values
		}
	}
	return nil
}

func writeEntry(c io.Writer, id int64, e Entry, copyNo int) error {
	dn := e.DN
	if copyNo > 0 {
		dn = "cn=copy " + big.NewInt(int64(copyNo)).String() + "," + dn
	}
	entry := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldapv3.ApplicationSearchResultEntry, nil, "")
	entry.AppendChild(str(dn))
	list := ber.NewSequence("")
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		a, set := ber.NewSequence(""), ber.Encode(ber.ClassUniversal, ber.TypeConstructed, ber.TagSet, nil, "")
		a.AppendChild(str(name))
		for _, v := range e.Attributes[name] {
			set.AppendChild(str(v))
		}
		a.AppendChild(set)
		list.AppendChild(a)
	}
	entry.AppendChild(list)
	m := message(id)
	m.AppendChild(entry)
	_, err := c.Write(m.Bytes())
	return err
}

func write(c io.Writer, id int64, tag ber.Tag, a Answer) error {
	m := message(id)
	m.AppendChild(result(tag, a))
	if a.Policy >= 0 && tag == ldapv3.ApplicationBindResponse {
		value := ber.NewSequence("")
		value.AppendChild(ber.NewInteger(ber.ClassContext, ber.TypePrimitive, 1, a.Policy, ""))
		control := ber.NewSequence("")
		control.AppendChild(str(ldapv3.ControlTypeBeheraPasswordPolicy))
		control.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, string(value.Bytes()), ""))
		m.AppendChild(controls(control))
	}
	_, err := c.Write(m.Bytes())
	return err
}

func message(id int64) *ber.Packet {
	m := ber.NewSequence("")
	m.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, id, ""))
	return m
}

func result(tag ber.Tag, a Answer) *ber.Packet {
	r := ber.Encode(ber.ClassApplication, ber.TypeConstructed, tag, nil, "")
	r.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagEnumerated, a.Code, ""))
	r.AppendChild(str(""))
	r.AppendChild(str(a.Message))
	return r
}

func controls(list ...*ber.Packet) *ber.Packet {
	c := ber.Encode(ber.ClassContext, ber.TypeConstructed, 0, nil, "")
	for _, one := range list {
		c.AppendChild(one)
	}
	return c
}

func str(s string) *ber.Packet {
	return ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, s, "")
}

func text(p *ber.Packet) string { return p.Data.String() }

func same(a, b string) bool {
	x, err := ldapv3.ParseDN(a)
	if err != nil {
		return false
	}
	y, err := ldapv3.ParseDN(b)
	return err == nil && x.EqualFold(y)
}

// certificate makes a certificate of this machine, which is its own authority.
func certificate(t testing.TB) (*tls.Config, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "directory of a test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	var raw []byte
	if err == nil {
		raw, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
