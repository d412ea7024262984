package seal

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/musterhq/muster/eventlog"
)

var (
	// ErrKeys is wrapped when the keys cannot be used: damaged, missing, or of
	// another log.
	ErrKeys = errors.New("the keys cannot be used")
	// ErrErased is wrapped when an account is addressed that was erased.
	ErrErased = errors.New("the account was erased")
)

// The sizes of an alias and of an account's secret: 32 bytes encrypt, 32 make
// tokens and nonces.
const (
	aliasPrefix = "~"
	aliasSize   = 17
	secretSize  = 64
	masterSize  = 32
)

// lower is base32 in lower case: an alias is the same in every file system.
var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// IsAlias says whether an account id has the form of an alias.
func IsAlias(id string) bool {
	if len(id) != aliasSize || !strings.HasPrefix(id, aliasPrefix) {
		return false
	}
	_, err := lower.DecodeString(id[1:])
	return err == nil
}

// Erased is what is left of an erased account beside its sealed records.
type Erased struct {
	Alias  string    `json:"alias"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// key is what is known of one account.
type key struct {
	id, alias string
	secret    [secretSize]byte

	mu   sync.Mutex
	seq  uint64   // sequence of the account's last record that was seen
	hash [16]byte // of that record as it is stored
}

// saw notes a stored record.
func (k *key) saw(seq uint64, hash [16]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq > k.seq {
		k.seq, k.hash = seq, hash
	}
}

// last returns the record that was seen last.
func (k *key) last() (seq uint64, hash [16]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seq, k.hash
}

// Keys is the file of keys, held in memory. It may be used from many goroutines;
// the folder must belong to this process alone.
type Keys struct {
	dir        string
	partitions int

	mu     sync.RWMutex
	file   *os.File
	size   int64
	broken error // set when the file's end is not known any more
	master [masterSize]byte
	byID   map[string]*key
	alias  map[string]*key
	erased map[string]Erased
}

// Exist says whether a folder holds keys.
func Exist(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, keysFile))
	return err == nil
}

// Create makes the keys of a new log. It refuses a folder that holds some.
func Create(dir string, partitions int) (*Keys, error) {
	if Exist(dir) {
		return nil, fmt.Errorf("create keys: %w: %s holds some already", ErrKeys, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create keys: %w", err)
	}
	k := empty(dir, partitions)
	random(k.master[:])
	if err := k.write(filepath.Join(dir, newFile)); err != nil {
		return nil, fmt.Errorf("create keys: %w", err)
	}
	if err := k.install(); err != nil {
		return nil, fmt.Errorf("create keys: %w", err)
	}
	return Open(dir, partitions)
}

// Open reads the keys of a folder and finishes an erasure that was interrupted.
// partitions is the log's count; 0: whatever the keys say.
func Open(dir string, partitions int) (*Keys, error) {
	k := empty(dir, partitions)
	if err := k.recover(); err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	if err := k.load(); err != nil {
		return nil, fmt.Errorf("open keys: %w", err)
	}
	return k, nil
}

func empty(dir string, partitions int) *Keys {
	return &Keys{dir: dir, partitions: partitions, byID: map[string]*key{}, alias: map[string]*key{}, erased: map[string]Erased{}}
}

// random fills b; the system's source never fails.
func random(b []byte) { _, _ = rand.Read(b) }

// Close closes the file.
func (k *Keys) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.file == nil {
		return nil
	}
	err := k.file.Close()
	k.file = nil
	return err
}

// Dir is the folder that holds them.
func (k *Keys) Dir() string { return k.dir }

// Partitions is the number of partitions that the aliases were made for.
func (k *Keys) Partitions() int { return k.partitions }

// Accounts is the number of accounts that have a key.
func (k *Keys) Accounts() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.byID)
}

// Account returns the account of an alias; ok is false when there is no key.
func (k *Keys) Account(alias string) (id string, ok bool) {
	if e := k.ofAlias(alias); e != nil {
		return e.id, true
	}
	return "", false
}

// Alias returns the alias of an account; ok is false when it has none.
func (k *Keys) Alias(id string) (alias string, ok bool) {
	if e := k.of(id); e != nil {
		return e.alias, true
	}
	return "", false
}

// Erased returns what is known of an erased account, by its alias.
func (k *Keys) Erased(alias string) (Erased, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	e, ok := k.erased[alias]
	return e, ok
}

// AllErased lists the erased accounts, the first one first.
func (k *Keys) AllErased() []Erased {
	k.mu.RLock()
	defer k.mu.RUnlock()
	list := make([]Erased, 0, len(k.erased))
	for _, e := range k.erased {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Erased) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.Alias, b.Alias)
	})
	return list
}

func (k *Keys) of(id string) *key {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.byID[id]
}

func (k *Keys) ofAlias(alias string) *key {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.alias[alias]
}

// ensure gives every account a key; they are on disk when it returns.
func (k *Keys) ensure(ids []string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var fresh []*key
	names := map[string]bool{}
	for _, id := range ids {
		if k.byID[id] == nil && !names[id] {
			names[id] = true
			fresh = append(fresh, k.fresh(id))
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if err := k.append(fresh); err != nil {
		return err
	}
	for _, e := range fresh {
		k.byID[e.id], k.alias[e.alias] = e, e
	}
	return nil
}

// fresh makes a key whose alias lies in the account's partition.
func (k *Keys) fresh(id string) *key {
	e := &key{id: id}
	random(e.secret[:])
	want := eventlog.Partition(id, k.partitions)
	var raw [10]byte
	for {
		random(raw[:])
		e.alias = aliasPrefix + lower.EncodeToString(raw[:])
		if eventlog.Partition(e.alias, k.partitions) == want && k.alias[e.alias] == nil {
			return e
		}
	}
}
