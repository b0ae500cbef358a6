//! Words that decide what a name in a text is. Each list is its words with white space between them.

/// A list of words.
#[derive(Clone, Copy)]
pub struct Words(&'static str);

impl Words {
    pub fn have(self, word: &str) -> bool {
        self.0.split_whitespace().any(|one| one == word)
    }
}

/// Words before a name that make it a proposal, or say that it is missing.
pub const PROPOSING: Words = Words(
    "no missing lacks lacking without new add adds adding introduce introduces introducing create
    creates creating extract define absent nonexistent expected",
);

/// The same where the text is a plan.
pub const PLANNING: Words = Words(
    "use using with to via into as by like write implement replace switch wrap return throw raise
    or instead prefer example e.g such called named run set pass call",
);

/// Words before a name that say where something is: what is new or missing is not the name.
pub const PLACES: Words = Words("to in from inside within for at on by before after around");

/// Words right before a name that is there, also in a plan.
pub const THERE: Words =
    Words("existing current already after before inside within beside in like unlike");

/// The same for what the plan acts upon, which is there whatever library it may be of.
pub const ACTING: Words =
    Words("remove delete drop rename inline revert reuse keep leave replace extend edit change");

/// Words between those and the name.
pub const FILLING: Words = Words(
    "the a an its their this that these those both all old helper function method class field
    type constant variable property option parameter argument struct enum trait interface module
    call calls private public",
);

/// Words after a name that say what it is.
pub const THINGS: Words = Words(
    "option flag setting method function class helper parameter argument field property constant
    struct enum trait interface module key",
);

/// `no call to x` says nothing about a place.
pub const REFERRING: Words = Words("call calls reference references equivalent");

/// What every type has, by its language, its build or a derivation.
pub const OF_ALL_TYPES: Words = Words(
    "__class__ __dict__ __init__ __name__ apply bind builder call cases clone cmp companion
    constructor copy default deserialize dispose dup entries equals extend fields fmt freeze
    from getclass gethashcode gettype hash hashcode include inspect instance into iter keys
    length method_missing name new ordinal parse prepend prototype public_send send serialize
    to_owned to_s to_string tostring try_from try_into tryfrom valueof values",
);

/// First words of commands, which are not code of the code base.
pub const COMMANDS: Words = Words(
    "bash bundle cargo cmake composer curl docker dotnet git go gradle heartbeat java javac make
    mix mvn node npm npx php pip pnpm pytest python python3 rake ruby sh swift tox yarn",
);

/// What languages bring along, whether this code base uses it or not.
pub const OF_LANGUAGES: Words = Words(
    "array assert async attributeerror await bool boolean break case catch char class companion
    const continue date default defer double else enum error except exception export false
    finally float for from func function hashmap i32 i64 if impl import indexerror int integer
    interface isinstance json keyerror lambda len let list long map match math mutex nan new nil
    none null nullpointerexception number object option panic print private promise protected
    public raise rangeerror referenceerror regexp result return self set static std str string
    struct super switch system this throw true try tuple type typeerror u32 u64 undefined unwrap
    usize valueerror var vec void while with yield",
);

/// Roots of names that a language or its library defines: `Math.round`, `std::mem::take`.
pub const ROOTS: Words = Words(
    "alloc argparse Array ArrayList Arrays ast asyncio atomic Base64 base64 BigDecimal BigInt
    BigInteger bisect BitConverter bool Boolean Buffer bufio byte Bytes bytes CancellationToken
    char Character codecs Collections collections Comparator console context contextlib Convert
    copy core csv CultureInfo dataclasses Date DateTime datetime Decimal decimal dict Dictionary
    Dir document Double double Duration Encoding enum Enumerable Environment Error errors f32
    f64 File filepath Files FileUtils Float float fmt fs functools gettext Guid hashlib HashMap
    HashSet heapq html http i128 i16 i32 i64 i8 inspect Instant Int int Integer Interlocked Intl
    io IOException ipaddress isize Iterator itertools java javax JSON json Kernel kotlin
    LinkedHashMap List list LocalDate Locale logging Long long Map maps Math math
    MidpointRounding net Number NumberFormat Object object Objects operator Option Optional os
    Path pathlib Pathname Paths pickle Process process Promise Proxy Random random re Reflect
    reflect Regex RegExp regexp Result secrets Sequence Set shlex short shutil slice slices
    socket sort sql std str strconv Stream StreamReader String string StringBuilder
    StringComparison strings struct subprocess Symbol sync sys System Task tempfile textwrap
    Thread threading Time time TimeSpan traceback tuple typing u128 u16 u32 u64 u8 Uint8Array
    unicode unicodedata unittest URI URL urllib usize utf8 util UUID uuid Vec warnings WeakMap
    weakref window Zlib zlib",
);

/// Endings that make a word with a dot the name of a file.
pub const EXTENSIONS: Words = Words(
    "rs ts tsx js jsx mjs cjs py pyi go java kt kts cs cpp cc cxx hpp hh rb php swift scala sql
    html css scss json yaml yml toml xml md rst txt sh gradle vue svelte dart ex exs erl hs lua
    proto csproj ini cfg c h m bats pl pm groovy clj fs ml nim zig erb haml tf ps1 mm mts cts",
);
