package eventlog

import "hash/fnv"

// HashName is the name of the hash that places an account in a partition; it
// stands in each stream's metadata beside the partition count.
const HashName = "fnv1a-32"

// Partition returns the partition of an account: FNV-1a-32(id) mod n.
func Partition(account string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(account)) // a hash's Write never fails
	return int(h.Sum32() % uint32(n))
}
