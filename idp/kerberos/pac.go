package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/crypto/etype"
	"github.com/jcmturner/gokrb5/v8/iana/adtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/pac"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Types of the buffers of a PAC. (MS-PAC 2.4)
const (
	logonInfo       = 1
	serverSignature = 6
	kdcSignature    = 7
)

// pacOf returns the PAC of a ticket: what the server of the realm says about the account that it gave the ticket to.
// nil: it has none. (MS-KILE 2.2.3)
func pacOf(data types.AuthorizationData) ([]byte, error) {
	for _, outer := range data {
		if outer.ADType != adtype.ADIfRelevant {
			continue
		}
		var inner types.AuthorizationData
		if inner.Unmarshal(outer.ADData) != nil {
			return nil, errors.New("authorization data cannot be read")
		}
		for _, d := range inner {
			if d.ADType == adtype.ADWin2KPAC {
				return d.ADData, nil
			}
		}
	}
	return nil, nil
}

// accountOf returns the name of the account that a PAC is about, once the key of the service has verified it: a
// computer can add authorization data of its own to the tickets that it asks for. Empty: it names none, as those of MIT
// Kerberos.
//
// GetPACType of the library takes neither those nor the signatures of keys for AES with SHA-2 (RFC 8009).
func accountOf(raw []byte, key types.EncryptionKey) (string, error) {
	signed := slices.Clone(raw)
	buffers, err := buffersOf(signed)
	if err != nil {
		return "", err
	}
	kind, sum, err := cut(buffers[serverSignature])
	if err == nil {
		_, _, err = cut(buffers[kdcSignature])
	}
	if err != nil {
		return "", err
	}
	if !kind.VerifyChecksum(key.KeyValue, signed, sum, keyusage.KERB_NON_KERB_CKSUM_SALT) {
		return "", errors.New("its signature is not that of the realm")
	}
	about, ok := buffers[logonInfo]
	if !ok {
		return "", nil
	}
	var info pac.KerbValidationInfo
	if info.Unmarshal(about) != nil || info.EffectiveName.Value == "" {
		return "", errors.New("it has no name of an account")
	}
	return info.EffectiveName.Value, nil
}

// buffersOf returns the first buffer of each type. They are parts of raw. (MS-PAC 2.3)
func buffersOf(raw []byte) (map[uint32][]byte, error) {
	const head, entry = 8, 16 // bytes
	if len(raw) < head {
		return nil, errShort
	}
	count := uint64(binary.LittleEndian.Uint32(raw))
	if count > uint64(len(raw)-head)/entry {
		return nil, errShort
	}
	out := map[uint32][]byte{}
	for e := range slices.Chunk(raw[head:head+entry*count], entry) {
		kind, size, from := binary.LittleEndian.Uint32(e), uint64(binary.LittleEndian.Uint32(e[4:])), binary.LittleEndian.Uint64(e[8:])
		if from > uint64(len(raw)) || size > uint64(len(raw))-from {
			return nil, errShort
		}
		if _, twice := out[kind]; !twice {
			out[kind] = raw[from : from+size]
		}
	}
	return out, nil
}

// cut takes the signature out of its buffer and leaves zeros in its place, over which a PAC is signed. (MS-PAC 2.8)
func cut(buffer []byte) (kind etype.EType, sum []byte, err error) {
	if len(buffer) < 4 {
		return nil, nil, errShort
	}
	id := int32(binary.LittleEndian.Uint32(buffer)) //nolint:gosec // some types are negative
	if kind, err = crypto.GetChksumEtype(id); err != nil {
		return nil, nil, fmt.Errorf("signatures of type %d are not known", id)
	}
	buffer = buffer[4:]
	size := kind.GetHMACBitLength() / 8
	if len(buffer) < size {
		return nil, nil, errShort
	}
	sum = slices.Clone(buffer[:size])
	clear(buffer[:size])
	return kind, sum, nil
}

var errShort = errors.New("a part of it is missing")
