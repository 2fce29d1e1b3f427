"""Helpers that all functions of a library with the classic packed interface call, as LLVM IR text
(`backend/cpu/packed_abi.py`).

Checks of arguments, errors, working memory, and the launch of workers through the slots of the library. `$COUNT$` is
the number of messages, `$PYTHON$` the constant with the words for functions of Python that cannot be reached.
"""

HELPERS = """\
; Context: worker, workers, and here the environment of the launch. Launch: entry, slots, their number, bytes for each
; worker, failure. Tensor: data, device, its number, dimensions, type, shape, strides, offset.
%Context = type { i32, i32, ptr }
%Launch  = type { ptr, ptr, i64, i64, i32 }
%Tensor  = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @fail(ptr %words) {
  %set = load ptr, ptr @__TVMAPISetLastError
  %none = icmp eq ptr %set, null
  br i1 %none, label %done, label %tell
tell:
  call void %set(ptr %words)
  br label %done
done:
  ret void
}

; The result of a function for the code of a kernel: its text where it failed.
define internal i32 @report(i32 %code) {
  %unreached = load i32, ptr @unreached
  %reached = icmp eq i32 %unreached, 0
  br i1 %reached, label %look, label %python
python:
  store i32 0, ptr @unreached
  call void @fail(ptr $PYTHON$)
  ret i32 -1
look:
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %fine, label %failed
fine:
  ret i32 0
failed:
  %index = sub i32 %code, 1
  %known = icmp ult i32 %index, $COUNT$
  br i1 %known, label %tell, label %leave
tell:
  %message = getelementptr ptr, ptr @messages, i32 %index
  %words = load ptr, ptr %message
  call void @fail(ptr %words)
  ret i32 -1
leave:
  ret i32 -1
}

define internal i1 @is_tensor(ptr %value, i32 %code, i32 %rank, i32 %type, i32 %other, ptr %extents) {
entry:
  switch i32 %code, label %no [ i32 3, label %handle
                                i32 7, label %handle
                                i32 13, label %handle ]
handle:
  %t = load ptr, ptr %value
  %null = icmp eq ptr %t, null
  br i1 %null, label %no, label %there
there:
  %device.p = getelementptr %Tensor, ptr %t, i32 0, i32 1
  %rank.p = getelementptr %Tensor, ptr %t, i32 0, i32 3
  %type.p = getelementptr %Tensor, ptr %t, i32 0, i32 4
  %shape.p = getelementptr %Tensor, ptr %t, i32 0, i32 5
  %strides.p = getelementptr %Tensor, ptr %t, i32 0, i32 6
  %device = load i32, ptr %device.p
  %own.rank = load i32, ptr %rank.p
  %own.type = load i32, ptr %type.p
  %shape = load ptr, ptr %shape.p
  %strides = load ptr, ptr %strides.p
  %plain = icmp eq i32 %device, 1
  %pinned = icmp eq i32 %device, 3
  %host = or i1 %plain, %pinned
  %same.rank = icmp eq i32 %own.rank, %rank
  %any.rank = icmp slt i32 %rank, 0
  %ranks = or i1 %same.rank, %any.rank
  %is.type = icmp eq i32 %own.type, %type
  %is.other = icmp eq i32 %own.type, %other
  %types = or i1 %is.type, %is.other
  %both = and i1 %ranks, %types
  %all = and i1 %both, %host
  %last = sub i32 %own.rank, 1
  br i1 %all, label %next, label %no
next:
  %d = phi i32 [ %last, %there ], [ %d.next, %stepped ]
  %step = phi i64 [ 1, %there ], [ %step.next, %stepped ]
  %more = icmp sge i32 %d, 0
  br i1 %more, label %look, label %yes
look:
  %extent.p = getelementptr i64, ptr %shape, i32 %d
  %extent = load i64, ptr %extent.p
  %step.next = mul i64 %step, %extent
  %d.next = sub i32 %d, 1
  br i1 %any.rank, label %stride, label %compare
compare:
  %wanted.p = getelementptr i64, ptr %extents, i32 %d
  %wanted = load i64, ptr %wanted.p
  %open = icmp slt i64 %wanted, 0
  %equal = icmp eq i64 %wanted, %extent
  %fits = or i1 %open, %equal
  br i1 %fits, label %stride, label %no
stride:
  %compact = icmp eq ptr %strides, null
  %trivial = icmp ule i64 %extent, 1
  %skip = or i1 %compact, %trivial
  br i1 %skip, label %stepped, label %strided
strided:
  %stride.p = getelementptr i64, ptr %strides, i32 %d
  %own = load i64, ptr %stride.p
  %right = icmp eq i64 %own, %step
  br i1 %right, label %stepped, label %no
stepped:
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

define internal ptr @elements(ptr %t) {
  %data = load ptr, ptr %t
  %offset.p = getelementptr %Tensor, ptr %t, i32 0, i32 7
  %offset = load i64, ptr %offset.p
  %first = getelementptr i8, ptr %data, i64 %offset
  ret ptr %first
}

define internal i64 @extent(ptr %t, i64 %d) {
  %shape.p = getelementptr %Tensor, ptr %t, i32 0, i32 5
  %shape = load ptr, ptr %shape.p
  %extent.p = getelementptr i64, ptr %shape, i64 %d
  %extent = load i64, ptr %extent.p
  ret i64 %extent
}

define internal double @number(ptr %value, i32 %code) {
  %is.float = icmp eq i32 %code, 2
  br i1 %is.float, label %float, label %int
float:
  %x = load double, ptr %value
  ret double %x
int:
  %i = load i64, ptr %value
  %y = sitofp i64 %i to double
  ret double %y
}

define internal i64 @whole(ptr %size) {
  %n = load i64, ptr %size
  %up = add i64 %n, 63
  %down = and i64 %up, -64
  ret i64 %down
}

; Memory of %n bytes and some, so that none are no failure.
define internal ptr @room(i64 %n) {
  %some = add i64 %n, 64
  %memory = call ptr @aligned_alloc(i64 64, i64 %some)
  ret ptr %memory
}

; Run the entry on the workers that the program sets, or on this one where the library has none.
define internal i32 @start(ptr %launch, ptr %entry, ptr %slots, i64 %count, i64 %each, i1 %serial) {
  %slots.p = getelementptr %Launch, ptr %launch, i32 0, i32 1
  %count.p = getelementptr %Launch, ptr %launch, i32 0, i32 2
  %each.p = getelementptr %Launch, ptr %launch, i32 0, i32 3
  %failure.p = getelementptr %Launch, ptr %launch, i32 0, i32 4
  store ptr %entry, ptr %launch
  store ptr %slots, ptr %slots.p
  store i64 %count, ptr %count.p
  store i64 %each, ptr %each.p
  store i32 0, ptr %failure.p
  %parallel = load ptr, ptr @__TVMBackendParallelLaunch
  %meeting = load ptr, ptr @__TVMBackendParallelBarrier
  %no.launch = icmp eq ptr %parallel, null
  %no.barrier = icmp eq ptr %meeting, null
  %none = or i1 %no.launch, %no.barrier
  %alone = or i1 %none, %serial
  br i1 %alone, label %here, label %there
here:
  %code = call i32 @share(i32 0, i32 1, ptr null, ptr %launch)
  ret i32 %code
there:
  %status = call i32 %parallel(ptr @task, ptr %launch, i32 0)
  %failure = load atomic i32, ptr %failure.p acquire, align 4
  %known = icmp ne i32 %failure, 0
  %result = select i1 %known, i32 %failure, i32 %status
  ret i32 %result
}

define internal i32 @task(i32 %worker, ptr %env, ptr %launch) {
  %workers.p = getelementptr i8, ptr %env, i64 8
  %workers = load i32, ptr %workers.p
  %code = call i32 @share(i32 %worker, i32 %workers, ptr %env, ptr %launch)
  ret i32 %code
}

; One worker's part: its own slots where it has memory of its own, which the last of them holds.
define internal i32 @share(i32 %worker, i32 %workers, ptr %env, ptr %launch) {
entry:
  %ctx = alloca %Context, align 16
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %env.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  store i32 %worker, ptr %ctx
  store i32 %workers, ptr %workers.p
  store ptr %env, ptr %env.p
  %fn = load ptr, ptr %launch
  %slots.p = getelementptr %Launch, ptr %launch, i32 0, i32 1
  %count.p = getelementptr %Launch, ptr %launch, i32 0, i32 2
  %each.p = getelementptr %Launch, ptr %launch, i32 0, i32 3
  %failure.p = getelementptr %Launch, ptr %launch, i32 0, i32 4
  %slots = load ptr, ptr %slots.p
  %count = load i64, ptr %count.p
  %each = load i64, ptr %each.p
  %own = alloca i64, i64 %count, align 16
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %slots, i64 %bytes, i1 false)
  %memory = call ptr @room(i64 %each)
  %last = sub i64 %count, 1
  %last.p = getelementptr i64, ptr %own, i64 %last
  store ptr %memory, ptr %last.p
  %code = call i32 %fn(ptr %own, ptr %ctx)
  call void @free(ptr %memory)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %done, label %failed
failed:
  store atomic i32 %code, ptr %failure.p release, align 4
  br label %done
done:
  ret i32 %code
}

define void @tilewright_barrier(ptr %ctx) {
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %workers = load i32, ptr %workers.p
  %single = icmp sle i32 %workers, 1
  br i1 %single, label %done, label %meet
meet:
  %env.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  %env = load ptr, ptr %env.p
  %worker = load i32, ptr %ctx
  %barrier = load ptr, ptr @__TVMBackendParallelBarrier
  call i32 %barrier(i32 %worker, ptr %env)
  br label %done
done:
  ret void
}

; Python functions are reached through a slot that only this package's own loader fills.
define void @tilewright_call_packed(ptr %addresses, ptr %words) {
  %call = load ptr, ptr @__tilewright_call_packed
  %none = icmp eq ptr %call, null
  br i1 %none, label %missing, label %there
missing:
  store i32 1, ptr @unreached
  br label %done
there:
  call void %call(ptr %addresses, ptr %words)
  br label %done
done:
  ret void
}
"""
