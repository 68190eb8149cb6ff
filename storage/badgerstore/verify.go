package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"
)

const lockName = "GATEHOUSE.LOCK"

var errInUse = errors.New("another process, or another store of this one, uses the directory")

// diskState is the state of the files before Badger sees them.
type diskState struct {
	seq  uint64           // number of the last commit
	logs map[string]int64 // where the last commit of each log ends; 0: it has none
}

// examine reads the files of a directory and refuses it if commits are missing from their middle. Badger would cut a
// log at the first byte that it cannot read, skip a table that fails its checksum, and call that recovered.
//
// Tables hold the commits up to some number, the logs (.mem) those after it, one after the other.
func examine(dir string) (diskState, error) {
	last, err := examineTables(dir)
	if err != nil {
		return diskState{}, err
	}
	logs, err := logFiles(dir)
	if err != nil {
		return diskState{}, err
	}
	ends := map[string]int64{}
	for _, name := range logs {
		l, err := readLog(filepath.Join(dir, name))
		if err != nil {
			return diskState{}, err
		}
		ends[name] = l.end
		switch {
		case l.first == 0: // empty: it is new, or its first commit is damaged, which the next log or COMMITS reveals
		case l.first > last+1:
			return diskState{}, lost("%s begins with commit %d, but what comes before ends with %d", name, l.first, last)
		default:
			last = max(last, l.last) // a log can remain after tables hold its content, as long as it is being read
		}
	}
	return diskState{seq: last, logs: ends}, nil
}

// logFiles returns the names of the logs, oldest first.
func logFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".mem") {
			names = append(names, e.Name())
		}
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(name, ".mem"))
		return n
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names, nil
}

// removeEmptyLogs removes logs without a single byte. A process that is killed while it makes a log, or while it
// removes one that tables hold, leaves such a file, and Badger refuses to open it. Call it only when nothing is
// missing.
func removeEmptyLogs(dir string) error {
	logs, err := logFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range logs {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err != nil {
			return err
		} else if st.Size() > 0 {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// Layout of a log: 20 bytes of head, then entries of meta, user meta, length of key and of value and expiry as
// uvarints, key with 8 bytes of version, value, CRC-32C. A transaction ends with an entry of its own.
const (
	logHead       = 20
	metaInTxn     = 1 << 6
	metaEndsTxn   = 1 << 7
	maxStoredKey  = 1 << 16
	minLogEntry   = 2 + 3 + crc32.Size
	versionLength = 8
)

// logState is the content of a log that Badger would read.
type logState struct {
	first, last uint64 // its commits; 0: none
	end         int64  // where the last one ends
}

func readLog(path string) (l logState, err error) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < logHead {
		return l, err
	}
	if !bytes.Equal(b[:8], make([]byte, 8)) {
		return l, lost("%s claims to be encrypted", filepath.Base(path))
	}
	open := uint64(0) // the commit whose entries are being read
	for at := logHead; ; {
		e, n := readLogEntry(b[at:])
		if n == 0 {
			return l, nil
		}
		at += n
		switch {
		case e.meta&metaInTxn != 0:
			if open != 0 && open != e.version {
				return l, nil
			}
			open = e.version
		case e.meta&metaEndsTxn != 0:
			seq, err := strconv.ParseUint(string(e.value), 10, 64)
			if err != nil || seq != open {
				return l, nil
			}
			if l.last != 0 && seq != l.last+1 {
				return logState{}, lost("%s goes from commit %d to %d", filepath.Base(path), l.last, seq)
			}
			if l.first == 0 {
				l.first = seq
			}
			l.last, l.end, open = seq, int64(at), 0
		default:
			return logState{}, lost("%s holds an entry of no commit", filepath.Base(path))
		}
	}
}

type logEntry struct {
	meta    byte
	version uint64
	value   []byte
}

// readLogEntry returns the first entry of b and its length, 0 if b holds no whole entry.
func readLogEntry(b []byte) (e logEntry, n int) {
	if len(b) < minLogEntry {
		return e, 0
	}
	at := 2
	var sizes [3]uint64 // of key and value, and the expiry
	for i := range sizes {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return e, 0
		}
		sizes[i], at = v, at+n
	}
	klen, vlen := sizes[0], sizes[1]
	if klen < versionLength || klen > maxStoredKey || vlen > uint64(len(b)) {
		return e, 0
	}
	end := at + int(klen) + int(vlen)
	if end+crc32.Size > len(b) || crc32.Checksum(b[:end], y.CastagnoliCrcTable) != binary.BigEndian.Uint32(b[end:]) {
		return e, 0
	}
	e.meta, e.version, e.value = b[0], y.ParseTs(b[at:at+int(klen)]), b[at+int(klen):end]
	return e, end + crc32.Size
}

// examineTables verifies every table that the manifest names and returns the last commit that they hold.
func examineTables(dir string) (last uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = lost("its tables cannot be read: %v", p)
		}
	}()
	path := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, noTables(dir)
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// A manifest that a crash cut short is fine as far as it goes: the logs and COMMITS reveal what is missing.
	manifest, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir))
	if err != nil {
		return 0, lost("%s: %w", badger.ManifestFilename, err)
	}
	for id := range manifest.Tables {
		newest, err := verifyTable(table.NewFilename(id, dir))
		if err != nil {
			return 0, lost("table %d: %w", id, err)
		}
		last = max(last, newest)
	}
	return last, nil
}

// noTables refuses a directory that has tables or logs but no manifest: Badger would delete the tables.
func noTables(dir string) error {
	for _, pattern := range [...]string{"*.sst", "*.mem", sideName} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return lost("%s is missing", badger.ManifestFilename)
		}
	}
	return nil
}

var errTable = errors.New("it is damaged")

// verifyTable checks every checksum of a table and returns the newest commit in it. The file ends with index, length of
// the index, checksum of the index, length of the checksum; each block with checksum and length of the checksum.
func verifyTable(path string) (newest uint64, err error) {
	f, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close(-1)
	rest, sum, ok := cutSum(f.Data)
	if !ok || len(rest) < 4 {
		return 0, errTable
	}
	rest, size := rest[:len(rest)-4], int64(binary.BigEndian.Uint32(rest[len(rest)-4:]))
	if size > int64(len(rest)) {
		return 0, errTable
	}
	blocks, raw := rest[:int64(len(rest))-size], rest[int64(len(rest))-size:]
	if err := y.VerifyChecksum(raw, sum); err != nil {
		return 0, err
	}
	index := fb.GetRootAsTableIndex(raw, 0)
	for i := range index.OffsetsLength() {
		var at fb.BlockOffset
		if !index.Offsets(&at, i) || uint64(at.Offset())+uint64(at.Len()) > uint64(len(blocks)) {
			return 0, errTable
		}
		data, sum, ok := cutSum(blocks[at.Offset() : at.Offset()+at.Len()])
		if !ok {
			return 0, errTable
		}
		if err := y.VerifyChecksum(data, sum); err != nil {
			return 0, err
		}
	}
	return index.MaxVersion(), nil
}

// cutSum splits the checksum from the end of b.
func cutSum(b []byte) (data []byte, sum *pb.Checksum, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	b, size := b[:len(b)-4], int64(binary.BigEndian.Uint32(b[len(b)-4:]))
	if size > int64(len(b)) {
		return nil, nil, false
	}
	at := int64(len(b)) - size
	sum = new(pb.Checksum)
	if proto.Unmarshal(b[at:], sum) != nil {
		return nil, nil, false
	}
	return b[:at], sum, true
}
