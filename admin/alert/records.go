package alert

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	alerts = storage.NewTable[record]("alert")            // id
	states = storage.NewTable[stateRecord]("alert_state") // id
)

// record is an alert as it was saved.
type record struct {
	Name   string       `cbor:"1,keyasint"`
	Owner  string       `cbor:"2,keyasint"` // id of a person
	Filter filterRecord `cbor:"3,keyasint"`
	To     Kind         `cbor:"4,keyasint"`
	Host   string       `cbor:"5,keyasint,omitempty"` // of the webhook
	Target []byte       `cbor:"6,keyasint,omitempty"` // the sealed target of the webhook
	Paused bool         `cbor:"7,keyasint,omitempty"`
	Made   time.Time    `cbor:"8,keyasint"`
}

// filterRecord is the filter of an alert.
type filterRecord struct {
	Person  string   `cbor:"1,keyasint,omitempty"`
	Client  string   `cbor:"2,keyasint,omitempty"`
	Address string   `cbor:"3,keyasint,omitempty"`
	Types   []string `cbor:"4,keyasint,omitempty"`
}

func (f *Filter) record() filterRecord { return filterRecord{f.Person, f.Client, f.Address, f.Types} }

func (f *filterRecord) filter() Filter { return Filter{f.Person, f.Client, f.Address, f.Types} }

// stateRecord is the progress of an alert.
type stateRecord struct {
	Behind  string        `cbor:"1,keyasint,omitempty"` // cursor of the events. Empty: it begins now
	Waiting int64         `cbor:"2,keyasint,omitempty"` // events that are not told of yet
	First   []string      `cbor:"3,keyasint,omitempty"` // places of the first of them
	Sending *bundleRecord `cbor:"4,keyasint,omitempty"` // what is being told. nil: nothing
	Tries   int           `cbor:"5,keyasint,omitempty"` // of it
	Due     time.Time     `cbor:"6,keyasint"`           // nothing is sent before
	Problem string        `cbor:"7,keyasint,omitempty"` // of the last try
	Fired   time.Time     `cbor:"8,keyasint"`
	Told    int64         `cbor:"9,keyasint,omitempty"`
	Hour    time.Time     `cbor:"10,keyasint"` // when the hour began in which messages are counted
	InHour  int           `cbor:"11,keyasint,omitempty"`
}

// bundleRecord is one message, the same at each try.
type bundleRecord struct {
	ID    string   `cbor:"1,keyasint"`
	Count int64    `cbor:"2,keyasint"`
	First []string `cbor:"3,keyasint,omitempty"`
}
