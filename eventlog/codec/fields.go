package codec

import "github.com/musterhq/muster/domain"

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

// fieldKeys are the keys as they stand in a record.
var fieldKeys = [fieldCount]string{
	fVersion: "v", fNumber: "n", fID: "id", fAccount: "a", fKind: "k", fMachine: "m", fMode: "md", fLabels: "lb",
	fKey: "y", fTrigger: "t", fOutcome: "o", fFrom: "f", fTo: "s", fAt: "at", fRecorded: "rt", fSource: "sr",
	fEpoch: "ep", fSeq: "sq", fBy: "by", fCode: "rc", fText: "rx", fVerdict: "vr", fData: "d", fSet: "cs",
	fEnded: "ce", fEffects: "fx", fCorrelation: "co", fCausation: "ca", fTraceparent: "tp", fWriter: "w", fPrev: "ph",
}

// required are the fields without which a record means nothing.
const required = 1<<fVersion | 1<<fNumber | 1<<fAccount | 1<<fKind | 1<<fTrigger | 1<<fOutcome

// keyIndex finds a field by its key: fieldOf hashes the one or two letters to
// a slot that no two keys share (a test holds this), then compares.
var keyIndex = func() (t [1024]field) {
	for f := fVersion; f < fieldCount; f++ {
		t[keySlot(keyCode(fieldKeys[f]))] = f
	}
	return t
}()

var keyCodes = func() (t [fieldCount]uint32) {
	for f := fVersion; f < fieldCount; f++ {
		t[f] = keyCode(fieldKeys[f])
	}
	return t
}()

// keyCode packs a key of one or two bytes; 0 for any other length.
func keyCode[T string | []byte](k T) uint32 {
	switch len(k) {
	case 1:
		return 1<<16 | uint32(k[0])
	case 2:
		return 2<<16 | uint32(k[0])<<8 | uint32(k[1])
	}
	return 0
}

func keySlot(code uint32) uint32 { return (code ^ code>>3 ^ code>>12) & 1023 }

// fieldOf returns the field of a packed key, or fUnknown.
func fieldOf(code uint32) field {
	if f := keyIndex[keySlot(code)]; keyCodes[f] == code {
		return f
	}
	return fUnknown
}

// stringField returns where a string field lives in the event, and nil for a
// field of another type.
func stringField(e *domain.Event, f field) *string {
	switch f {
	case fID:
		return &e.ID
	case fAccount:
		return (*string)(&e.Account)
	case fMachine:
		return &e.Machine
	case fMode:
		return &e.Mode
	case fKey:
		return &e.Key
	case fTrigger:
		return &e.Trigger
	case fFrom:
		return &e.From
	case fTo:
		return &e.To
	case fSource:
		return &e.Source
	case fBy:
		return (*string)(&e.By)
	case fCode:
		return &e.Reason.Code
	case fText:
		return &e.Reason.Text
	case fVerdict:
		return &e.Verdict
	case fCorrelation:
		return &e.Correlation
	case fCausation:
		return &e.Causation
	case fTraceparent:
		return &e.Traceparent
	}
	return nil
}

// repeats are the string fields whose values come again and again over a
// fleet's history, so that interning them pays.
const repeats = 1<<fMachine | 1<<fMode | 1<<fTrigger | 1<<fFrom | 1<<fTo | 1<<fSource | 1<<fBy | 1<<fCode | 1<<fVerdict

// intField returns where an int64 field lives, and nil for another type.
func intField(e *domain.Event, f field) *int64 {
	switch f {
	case fAt:
		return &e.At
	case fRecorded:
		return &e.Recorded
	case fEpoch:
		return &e.Epoch
	case fSeq:
		return &e.Seq
	}
	return nil
}

// checkRequired is the last step of both readers: seen is the bit set of the
// fields met.
func checkRequired(e *domain.Event, seen uint64) error {
	if miss := required &^ seen; miss != 0 {
		for f := fVersion; f < fieldCount; f++ {
			if miss&(1<<f) != 0 {
				return malformed("record has no key %q", fieldKeys[f])
			}
		}
	}
	if f := invalidField(e); f != fUnknown {
		return malformed("record has no usable value for key %q", fieldKeys[f])
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
	case e.Kind < domain.KindSession || e.Kind > domain.KindMark:
		return fKind
	case e.Trigger == "":
		return fTrigger
	case !e.Outcome.Appended():
		return fOutcome
	}
	return fUnknown
}
