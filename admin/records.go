package admin

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	jobs        = storage.NewTable[jobRecord]("manage_job")                // id
	openJobs    = storage.NewTable[struct{}]("manage_job_open")            // id of a job that is not at its end
	chainChecks = storage.NewTable[chainCheckRecord]("manage_chain_check") // the one check of the seals of all events
	leftOut     = storage.NewTable[leftRecord]("manage_job_left")          // id, number

	importFiles = storage.NewTable[sealedRecord]("manage_import_file")  // id, file, number -> a piece of what was uploaded
	importWhom  = storage.NewTable[sealedRecord]("manage_import_whom")  // id, part -> its persons
	importSlots = storage.NewTable[slotRecord]("manage_import_slot")    // id of who has uploaded, number
	importParts = storage.NewTable[[]ImportRow]("manage_import_report") // id, part
)

// jobRecord is work on many persons.
type jobRecord struct {
	Kind      string    `cbor:"1,keyasint"`
	Group     string    `cbor:"2,keyasint,omitempty"` // id
	Reason    string    `cbor:"3,keyasint,omitempty"`
	By        Requester `cbor:"4,keyasint"`
	Persons   []string  `cbor:"5,keyasint,omitempty"` // ids. None: all that the filter selects
	Filter    Filter    `cbor:"6,keyasint"`
	After     string    `cbor:"7,keyasint,omitempty"` // place in the list of the filter
	At        int       `cbor:"8,keyasint,omitempty"` // place in Persons
	State     JobState  `cbor:"9,keyasint"`
	Done      int       `cbor:"10,keyasint,omitempty"`
	Left      int       `cbor:"11,keyasint,omitempty"`
	Created   time.Time `cbor:"12,keyasint"`
	Changed   time.Time `cbor:"13,keyasint"`
	GroupName string    `cbor:"14,keyasint,omitempty"`
	Import    *Import   `cbor:"15,keyasint,omitempty"` // of JobImport
}

// sealedRecord is a part of an upload. It can have hashes of passwords, and passwords.
type sealedRecord struct {
	Sealed []byte `cbor:"1,keyasint"`
}

// slotRecord is an import that waits for someone to confirm it.
type slotRecord struct {
	Job string `cbor:"1,keyasint"`
}

// theCheck is the key of the one chainCheckRecord.
const theCheck = "last"

// chainCheckRecord is the last check of the seals of the events, and whether another one is wanted.
type chainCheckRecord struct {
	Waiting  bool            `cbor:"1,keyasint,omitempty"`
	Asked    time.Time       `cbor:"2,keyasint"`
	By       string          `cbor:"3,keyasint,omitempty"`
	Host     string          `cbor:"4,keyasint,omitempty"`
	Ended    time.Time       `cbor:"5,keyasint"`
	Chains   []checkedRecord `cbor:"6,keyasint,omitempty"`
	Problems []string        `cbor:"7,keyasint,omitempty"`
	Failed   string          `cbor:"8,keyasint,omitempty"`
}

// checkedRecord is the progress of the check of one chain.
type checkedRecord struct {
	Chain    string    `cbor:"1,keyasint"`
	Writer   string    `cbor:"2,keyasint,omitempty"`
	Sealed   uint64    `cbor:"3,keyasint"`
	SealedAt time.Time `cbor:"4,keyasint"`
	Events   uint64    `cbor:"5,keyasint"`
}

// leftRecord is a person that a job has left out.
type leftRecord struct {
	Person string `cbor:"1,keyasint"`
	Why    string `cbor:"2,keyasint"`
}
