package codec

import (
	"unsafe"

	"github.com/musterhq/muster/domain"
)

// field is one key of a record. The order is that of the format.
type field uint8

const (
	fUnknown field = iota
	fVersion
	fNumber
	fID
	fAccount
	fKind
	fMachine
	fInitial
	fMode
	fLabels
	fKey
	fTrigger
	fOutcome
	fFrom
	fTo
	fAt
	fRecorded
	fSource
	fEpoch
	fSeq
	fBy
	fCode
	fText
	fVerdict
	fData
	fSet
	fEnded
	fEffects
	fCorrelation
	fCausation
	fTraceparent
	fWriter
	fPrev
	fieldCount
)

// shape is the type of a field's value.
type shape uint8

const (
	shapeOther   shape = iota // see the readers' field methods
	shapeInt                  // an int64 of the event
	shapeUint                 // a number that setUint checks and stores
	shapeText                 // a string of the event that is mostly different each time
	shapeName                 // a string of the event that comes again and again over a fleet's history
	shapeAccount              // the account id, which the caller may know already
)

// fields is the one table of keys: how a key stands in a record, what its
// value is, and for text, names and ints where in a domain.Event it goes.
var fields = [maxFields]fieldSpec{
	fVersion:     {key: "v", shape: shapeUint},
	fNumber:      {key: "n", shape: shapeUint},
	fID:          {key: "id", shape: shapeText, offset: unsafe.Offsetof(layout.ID)},
	fAccount:     {key: "a", shape: shapeAccount, offset: unsafe.Offsetof(layout.Account)},
	fKind:        {key: "k", shape: shapeUint},
	fMachine:     {key: "m", shape: shapeName, offset: unsafe.Offsetof(layout.Machine)},
	fInitial:     {key: "in", shape: shapeName, offset: unsafe.Offsetof(layout.Initial)},
	fMode:        {key: "md", shape: shapeName, offset: unsafe.Offsetof(layout.Mode)},
	fLabels:      {key: "lb", shape: shapeOther},
	fKey:         {key: "y", shape: shapeText, offset: unsafe.Offsetof(layout.Key)},
	fTrigger:     {key: "t", shape: shapeName, offset: unsafe.Offsetof(layout.Trigger)},
	fOutcome:     {key: "o", shape: shapeUint},
	fFrom:        {key: "f", shape: shapeName, offset: unsafe.Offsetof(layout.From)},
	fTo:          {key: "s", shape: shapeName, offset: unsafe.Offsetof(layout.To)},
	fAt:          {key: "at", shape: shapeInt, offset: unsafe.Offsetof(layout.At)},
	fRecorded:    {key: "rt", shape: shapeInt, offset: unsafe.Offsetof(layout.Recorded)},
	fSource:      {key: "sr", shape: shapeName, offset: unsafe.Offsetof(layout.Source)},
	fEpoch:       {key: "ep", shape: shapeInt, offset: unsafe.Offsetof(layout.Epoch)},
	fSeq:         {key: "sq", shape: shapeInt, offset: unsafe.Offsetof(layout.Seq)},
	fBy:          {key: "by", shape: shapeName, offset: unsafe.Offsetof(layout.By)},
	fCode:        {key: "rc", shape: shapeName, offset: unsafe.Offsetof(layout.Reason) + unsafe.Offsetof(layout.Reason.Code)},
	fText:        {key: "rx", shape: shapeText, offset: unsafe.Offsetof(layout.Reason) + unsafe.Offsetof(layout.Reason.Text)},
	fVerdict:     {key: "vr", shape: shapeName, offset: unsafe.Offsetof(layout.Verdict)},
	fData:        {key: "d", shape: shapeOther},
	fSet:         {key: "cs", shape: shapeOther},
	fEnded:       {key: "ce", shape: shapeOther},
	fEffects:     {key: "fx", shape: shapeUint},
	fCorrelation: {key: "co", shape: shapeText, offset: unsafe.Offsetof(layout.Correlation)},
	fCausation:   {key: "ca", shape: shapeText, offset: unsafe.Offsetof(layout.Causation)},
	fTraceparent: {key: "tp", shape: shapeText, offset: unsafe.Offsetof(layout.Traceparent)},
	fWriter:      {key: "w", shape: shapeUint},
	fPrev:        {key: "ph", shape: shapeOther},
}

// maxFields is a power of two with room for every field, and no more than the
// bits of a set of fields.
const maxFields = 64

type fieldSpec struct {
	key    string
	shape  shape
	offset uintptr
}

// fieldCodes are the packed keys; no key packs to the 0 of fUnknown.
var fieldCodes = func() (t [maxFields]uint32) {
	for f := fVersion; f < fieldCount; f++ {
		t[f] = keyCode(fields[f].key)
	}
	return t
}()

// bit is the field's place in a set of fields; fUnknown has none, since keys
// that are not known may come as often as they like.
func (f field) bit() uint64 { return 1 << f &^ 1 }

// layout is an event to take offsets of.
var layout domain.Event

// textOf is the string of a field of shapeText or shapeName. AccountID and
// Initiator have the layout of a string.
func textOf(e *domain.Event, offset uintptr) *string {
	return (*string)(unsafe.Add(unsafe.Pointer(e), offset))
}

// intOf is the number of a field of shapeInt.
func intOf(e *domain.Event, offset uintptr) *int64 {
	return (*int64)(unsafe.Add(unsafe.Pointer(e), offset))
}

// keyCode packs a key of one or two bytes into the form that the bytes of its
// msgpack encoding have as a little-endian number; 0 for any other length.
func keyCode[T string | []byte](k T) uint32 {
	switch len(k) {
	case 1:
		return 0xa1 | uint32(k[0])<<8
	case 2:
		return 0xa2 | uint32(k[0])<<8 | uint32(k[1])<<16
	}
	return 0
}

// fieldAfter returns the field of a packed key, or fUnknown. It looks behind
// the field before first, where the format's order has the key.
func fieldAfter(before field, code uint32) field {
	for f := before + 1; f < fieldCount; f++ {
		if fieldCodes[f] == code {
			return f
		}
	}
	for f := fVersion; f <= before; f++ {
		if fieldCodes[f] == code {
			return f
		}
	}
	return fUnknown
}

// required are the fields without which a record means nothing.
const required = 1<<fVersion | 1<<fNumber | 1<<fAccount | 1<<fKind | 1<<fTrigger | 1<<fOutcome

// checkRequired is the last step of both readers: seen is the bit set of the
// fields met.
func checkRequired(e *domain.Event, seen uint64) error {
	if miss := required &^ seen; miss != 0 {
		for f := fVersion; f < fieldCount; f++ {
			if miss&(1<<f) != 0 {
				return malformed("record has no key %q", fields[f].key)
			}
		}
	}
	if f := invalidField(e); f != fUnknown {
		return malformed("record has no usable value for key %q", fields[f].key)
	}
	return nil
}

// invalidField names a field whose value no record may have, or fUnknown.
func invalidField(e *domain.Event) field {
	switch {
	case e.Version == 0:
		return fNumber
	case e.Account == "":
		return fAccount
	case e.Kind < domain.KindSession || e.Kind > domain.KindForeign:
		return fKind
	case e.Trigger == "":
		return fTrigger
	case !e.Outcome.Appended():
		return fOutcome
	}
	return fUnknown
}
