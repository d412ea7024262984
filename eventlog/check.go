package eventlog

import "fmt"

// CheckGroup gives every entry that no log may accept its ErrRefused: an empty
// account, an account of another partition, an ExpectPrevious with nothing of
// its account before it. Each implementation of Append calls it first; the
// other results are left as they are. It reports whether all entries are good.
func CheckGroup(partitions, partition int, group []Entry, results []Result) bool {
	good := true
	refuse := func(i int, format string, args ...any) {
		good = false
		results[i] = Result{Err: fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)}
	}
	for i, e := range group {
		switch {
		case partition < 0 || partition >= partitions:
			refuse(i, "there is no partition %d of %d", partition, partitions)
		case e.Account == "":
			refuse(i, "the account is empty")
		case Partition(e.Account, partitions) != partition:
			refuse(i, "account %q belongs to partition %d, not %d", e.Account, Partition(e.Account, partitions), partition)
		case e.Expect == ExpectPrevious && !accountBefore(group[:i], e.Account):
			refuse(i, "account %q has no earlier entry in the group", e.Account)
		}
	}
	return good
}

// accountBefore looks backwards, since entries of one account mostly stand together.
func accountBefore(group []Entry, account string) bool {
	for i := len(group) - 1; i >= 0; i-- {
		if group[i].Account == account {
			return true
		}
	}
	return false
}

// FollowsFailure is the result of an entry whose account had an earlier entry
// of the same group fail with err: the same class, nothing tried.
func FollowsFailure(account string, err error) Result {
	return Result{Err: fmt.Errorf("account %q: an earlier entry of the group failed: %w", account, err)}
}
