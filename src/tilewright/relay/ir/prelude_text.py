"""The text of the prelude (`relay/ir/prelude.py`)."""

PRELUDE = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
type Option[A] { Some(A), None }
type Tree[A] { Rose(A, List[Tree[A]]) }

def @id[A](%x: A) -> A { %x }

def @compose[A, B, C](%f: fn (B) -> C, %g: fn (A) -> B) -> fn (A) -> C {
  fn (%x: A) -> C { %f(%g(%x)) }
}

def @iterate[A](%f: fn (A) -> A, %n: int32) -> fn (A) -> A {
  if (%n == 0) { @id } else { @compose(%f, @iterate(%f, %n - 1)) }
}

def @hd[A](%xs: List[A]) -> A {
  match? (%xs) { Cons(%x, _) => %x }
}

def @tl[A](%xs: List[A]) -> List[A] {
  match? (%xs) { Cons(_, %rest) => %rest }
}

def @nth[A](%xs: List[A], %n: int32) -> A {
  if (%n == 0) { @hd(%xs) } else { @nth(@tl(%xs), %n - 1) }
}

def @update[A](%xs: List[A], %n: int32, %v: A) -> List[A] {
  if (%n == 0) { Cons(%v, @tl(%xs)) } else { Cons(@hd(%xs), @update(@tl(%xs), %n - 1, %v)) }
}

def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
  match (%xs) {
    Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)),
    Nil => Nil,
  }
}

def @foldl[A, B](%f: fn (A, B) -> A, %acc: A, %xs: List[B]) -> A {
  match (%xs) {
    Cons(%x, %rest) => @foldl(%f, %f(%acc, %x), %rest),
    Nil => %acc,
  }
}

def @foldr[A, B](%f: fn (A, B) -> B, %last: B, %xs: List[A]) -> B {
  match (%xs) {
    Cons(%x, %rest) => %f(%x, @foldr(%f, %last, %rest)),
    Nil => %last,
  }
}

def @foldr1[A](%f: fn (A, A) -> A, %xs: List[A]) -> A {
  match? (%xs) {
    Cons(%x, Nil) => %x,
    Cons(%x, %rest) => %f(%x, @foldr1(%f, %rest)),
  }
}

def @concat[A](%xs: List[A], %ys: List[A]) -> List[A] {
  @foldr(fn (%x: A, %rest: List[A]) -> List[A] { Cons(%x, %rest) }, %ys, %xs)
}

def @filter[A](%f: fn (A) -> bool, %xs: List[A]) -> List[A] {
  match (%xs) {
    Cons(%x, %rest) => if (%f(%x)) { Cons(%x, @filter(%f, %rest)) } else { @filter(%f, %rest) },
    Nil => Nil,
  }
}

def @zip[A, B](%xs: List[A], %ys: List[B]) -> List[(A, B)] {
  match ((%xs, %ys)) {
    (Cons(%x, %xs1), Cons(%y, %ys1)) => Cons((%x, %y), @zip(%xs1, %ys1)),
    _ => Nil,
  }
}

def @rev[A](%xs: List[A]) -> List[A] {
  @foldl(fn (%done: List[A], %x: A) -> List[A] { Cons(%x, %done) }, Nil, %xs)
}

def @map_accuml[A, B, C](%f: fn (A, B) -> (A, C), %acc: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %here = %f(%acc, %x);
      let %there = @map_accuml(%f, %here.0, %rest);
      (%there.0, Cons(%here.1, %there.1))
    },
    Nil => (%acc, Nil),
  }
}

def @map_accumr[A, B, C](%f: fn (A, B) -> (A, C), %acc: A, %xs: List[B]) -> (A, List[C]) {
  match (%xs) {
    Cons(%x, %rest) => {
      let %there = @map_accumr(%f, %acc, %rest);
      let %here = %f(%there.0, %x);
      (%here.0, Cons(%here.1, %there.1))
    },
    Nil => (%acc, Nil),
  }
}

def @unfoldl[A, B](%f: fn (A) -> Option[(A, B)], %start: A) -> List[B] {
  let %step = fn (%state: A, %done: List[B]) -> List[B] {
    match (%f(%state)) {
      Some(%pair) => %step(%pair.0, Cons(%pair.1, %done)),
      None => %done,
    }
  };
  %step(%start, Nil)
}

def @unfoldr[A, B](%f: fn (A) -> Option[(A, B)], %start: A) -> List[B] {
  match (%f(%start)) {
    Some(%pair) => Cons(%pair.1, @unfoldr(%f, %pair.0)),
    None => Nil,
  }
}

def @length[A](%xs: List[A]) -> int32 {
  @foldl(fn (%n: int32, %x: A) -> int32 { %n + 1 }, 0, %xs)
}

def @sum(%xs: List[int32]) -> int32 {
  @foldl(fn (%total: int32, %x: int32) -> int32 { %total + %x }, 0, %xs)
}

def @all[A](%f: fn (A) -> bool, %xs: List[A]) -> bool {
  match (%xs) {
    Cons(%x, %rest) => if (%f(%x)) { @all(%f, %rest) } else { False },
    Nil => True,
  }
}

def @any[A](%f: fn (A) -> bool, %xs: List[A]) -> bool {
  match (%xs) {
    Cons(%x, %rest) => if (%f(%x)) { True } else { @any(%f, %rest) },
    Nil => False,
  }
}

def @tmap[A, B](%f: fn (A) -> B, %t: Tree[A]) -> Tree[B] {
  match (%t) {
    Rose(%x, %children) => Rose(%f(%x), @map(fn (%c: Tree[A]) -> Tree[B] { @tmap(%f, %c) }, %children)),
  }
}

def @size[A](%t: Tree[A]) -> int32 {
  match (%t) {
    Rose(_, %children) => 1 + @sum(@map(@size, %children)),
  }
}
"""

#: For elements of one type and number of dimensions; {stacked} has one dimension more.
TENSOR_ARRAY = """
def @tensor_array_create_{suffix}(%n: int32) -> List[Option[{element}]] {{
  if (%n == 0) {{ Nil }} else {{ Cons(None, @tensor_array_create_{suffix}(%n - 1)) }}
}}

def @tensor_array_write_{suffix}(%xs: List[Option[{element}]], %i: int32, %x: {element}) -> List[Option[{element}]] {{
  @update(%xs, %i, Some(%x))
}}

def @tensor_array_read_{suffix}(%xs: List[Option[{element}]], %i: int32) -> {element} {{
  match? (@nth(%xs, %i)) {{ Some(%x) => %x }}
}}

def @tensor_array_size_{suffix}(%xs: List[Option[{element}]]) -> int32 {{
  @length(%xs)
}}

def @tensor_array_stack_{suffix}(%xs: List[Option[{element}]]) -> {stacked} {{
  let %rows: List[{stacked}] = @map(fn (%slot: Option[{element}]) -> {stacked} {{
    match? (%slot) {{ Some(%x) => expand_dims(%x, axis=0) }}
  }}, %xs);
  @foldr1(fn (%a: {stacked}, %b: {stacked}) -> {stacked} {{ concatenate((%a, %b), axis=0) }}, %rows)
}}
"""
