package lab

import (
	"bufio"
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
)

// Directory is an LDAP server with an account that searches and one person, that works or fails as it is told. It
// answers simple binds and searches by name. (RFC 4511)
type Directory struct {
	faulty

	Searches atomic.Int64 // that were answered as they should be
}

// What the directory has.
const (
	DirectoryBase     = "ou=people,dc=example,dc=com"
	DirectoryReader   = "cn=reader,dc=example,dc=com"
	DirectoryPerson   = "somebody"
	DirectoryPassword = "password at the directory" // of both
)

// NewDirectory starts a directory that works.
func NewDirectory() (*Directory, error) {
	d := &Directory{}
	d.serve, d.endless = d.answer, d.refer
	d.begin = "\x30\x82\x03\xe8\x02\x01\x01\x61" // an answer of 1000 bytes to the first request
	return d, d.listen()
}

// URL is the address of the directory.
func (d *Directory) URL() string { return fmt.Sprintf("ldap://localhost:%d", d.Port) }

// Tags of operations and their answers.
const (
	bindRequest, bindResponse                    = 0, 0x61
	searchRequest, searchEntry, searchDone       = 3, 0x64, 0x65
	searchReference                              = 0x73
	success, invalidCredentials            uint8 = 0, 49
)

// ldapRequest is one request, with the parts of its operation.
type ldapRequest struct {
	id    []byte // as it was encoded
	tag   int
	parts []asn1.RawValue
}

// readLDAP reads one request.
func readLDAP(r *bufio.Reader) (q ldapRequest, err error) {
	head, err := r.Peek(2)
	if err != nil {
		return q, err
	}
	skip, length := 2, int(head[1])
	if n := length & 0x7f; length > 0x7f {
		if n > 4 {
			return q, errors.New("a length of more than four bytes")
		}
		if head, err = r.Peek(2 + n); err != nil {
			return q, err
		}
		skip, length = 2+n, int(binary.BigEndian.Uint32(append(make([]byte, 4-n, 4), head[2:]...)))
	}
	if length > 1<<20 {
		return q, errors.New("a request of more than 1 MiB")
	}
	body := make([]byte, skip+length)
	if _, err := io.ReadFull(r, body); err != nil {
		return q, err
	}
	var id, op asn1.RawValue
	rest, err := asn1.Unmarshal(body[skip:], &id)
	if err == nil {
		_, err = asn1.Unmarshal(rest, &op)
	}
	q.id, q.tag = id.FullBytes, op.Tag
	for rest = op.Bytes; err == nil && op.IsCompound && len(rest) > 0; {
		var part asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &part); err == nil {
			q.parts = append(q.parts, part)
		}
	}
	return q, err
}

// tlv encodes a tag with what is in it.
func tlv(tag byte, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	out := []byte{tag, byte(len(body))}
	if len(body) > 0x7f {
		out = binary.BigEndian.AppendUint16([]byte{tag, 0x82}, uint16(len(body))) //nolint:gosec // answers are short
	}
	return append(out, body...)
}

func octets(s string) []byte { return tlv(asn1.TagOctetString, []byte(s)) }

// message is an answer of an operation.
func (q ldapRequest) message(tag byte, parts ...[]byte) []byte {
	return tlv(0x30, q.id, tlv(tag, parts...))
}

// result is an answer that says only how an operation has ended.
func (q ldapRequest) result(tag byte, code uint8) []byte {
	return q.message(tag, tlv(asn1.TagEnum, []byte{code}), octets(""), octets(""))
}

// answer serves a connection until its end.
func (d *Directory) answer(c net.Conn) {
	d.hold(c)
	defer d.drop(c)
	r := bufio.NewReader(c)
	for {
		q, err := readLDAP(r)
		if err != nil {
			return
		}
		var out []byte
		switch {
		case q.tag == bindRequest && len(q.parts) == 3:
			code := invalidCredentials
			if name := string(q.parts[1].Bytes); string(q.parts[2].Bytes) == DirectoryPassword && (name == DirectoryReader || name == personDN) {
				code = success
			}
			out = q.result(bindResponse, code)
		case q.tag == searchRequest && len(q.parts) > 6:
			d.Searches.Add(1)
			if bytes.Contains(q.parts[6].FullBytes, []byte(DirectoryPerson)) || string(q.parts[0].Bytes) == personDN {
				id := tlv(0x30, octets("entryUUID"), tlv(0x31, octets("11111111-aaaa-4aaa-8aaa-000000000001")))
				uid := tlv(0x30, octets("uid"), tlv(0x31, octets(DirectoryPerson)))
				out = q.message(searchEntry, octets(personDN), tlv(0x30, id, uid))
			}
			out = append(out, q.result(searchDone, success)...)
		default: // unbind
			return
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

const personDN = "uid=" + DirectoryPerson + "," + DirectoryBase

// refer accepts every bind, and answers a search with referrals without end.
func (d *Directory) refer(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		q, err := readLDAP(r)
		if err != nil {
			return
		}
		if q.tag == bindRequest {
			if _, err := c.Write(q.result(bindResponse, success)); err != nil {
				return
			}
			continue
		}
		many := bytes.Repeat(q.message(searchReference, octets("ldap://elsewhere.example.com/dc=example,dc=com")), 1000)
		for {
			if _, err := c.Write(many); err != nil {
				return
			}
		}
	}
}
